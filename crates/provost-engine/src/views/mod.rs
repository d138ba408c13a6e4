//! Pure functions from State to the shapes of the API.
