//! A pretend GPU site on virtual time, for the demo and for the proof that Provost keeps its promises.
//!
//! The controller and its journal are the real ones; everything around them is drawn from one seed: a small
//! scheduler that behaves as Slurm was seen to, agents, jobs, people, and what goes wrong. Nothing here reads a
//! clock or sleeps, so ten minutes of a site take part of a second and the same seed tells the same story.
//!
//! [`seed::run`] lives one seed under every checker; [`demo::Demo`] tells one story to a person; [`corpus`] plays
//! labelled episodes and says what was found, missed and wrongly seen.

pub mod checkers;
pub mod corpus;
pub mod demo;
pub mod draw;
pub mod faults;
pub mod seed;
pub mod site;
pub mod world;
