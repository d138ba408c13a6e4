//! What a server is made of: processors, GPUs among them, and what stands on its own label.

use provost_model::bmc::Health;
use serde_json::Value;

use super::error::Error;
use super::resource::{self, Status, text};
use super::session::Session;
use super::system::{self, System};

/// Parts of one collection.
const MAX_PARTS: usize = 256;
/// Functions of one PCIe device.
const MAX_FUNCTIONS: usize = 16;

/// What a server is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// Every system behind the BMC; a baseboard of GPUs is one beside the host.
    pub systems: Vec<System>,
    /// Processors and accelerators.
    pub parts: Vec<Part>,
}

/// One part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its id in the server: `GPU_0`.
    pub id: String,
    /// What it is.
    pub kind: PartKind,
    /// Who made it.
    pub manufacturer: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// UUID.
    pub uuid: Option<String>,
    /// Health.
    pub health: Option<Health>,
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// A processor.
    Cpu,
    /// A GPU, listed as a processor, a graphics controller or a PCIe device.
    Gpu,
    /// Another processor: FPGA, DPU.
    Other,
}

/// Reads the systems and their parts. A part that is listed in two places is one, by its serial number.
pub(super) async fn read(session: &mut Session<'_>) -> Result<Inventory, Error> {
    let mut inventory = Inventory::default();
    for path in system::paths(session).await? {
        let Some(value) = session.get_optional(&path).await? else { continue };
        inventory.systems.push(System::of(&path, &value));
        let mut found = Vec::new();
        if let Some(processors) = resource::link(&value, "Processors") {
            let all = session.all(&processors, MAX_PARTS).await?;
            found.extend(all.iter().filter_map(|part| part_of(part, processor_kind(part))));
        }
        if let Some(controllers) = resource::link(&value, "GraphicsControllers") {
            let all = session.all(&controllers, MAX_PARTS).await?;
            found.extend(all.iter().filter_map(|part| part_of(part, PartKind::Gpu)));
        }
        found.extend(pcie_gpus(session, &value).await?);
        for part in found {
            let same = |other: &Part| {
                part.serial.is_some() && part.serial == other.serial && part.kind == other.kind
            };
            if inventory.parts.len() < MAX_PARTS && !inventory.parts.iter().any(same) {
                inventory.parts.push(part);
            }
        }
    }
    Ok(inventory)
}

fn processor_kind(part: &Value) -> PartKind {
    match part.get("ProcessorType").and_then(Value::as_str) {
        Some("CPU") => PartKind::Cpu,
        Some("GPU") => PartKind::Gpu,
        _ => PartKind::Other,
    }
}

/// PCIe devices with a function that displays or accelerates.
async fn pcie_gpus(session: &mut Session<'_>, system: &Value) -> Result<Vec<Part>, Error> {
    let mut gpus = Vec::new();
    let links: Vec<Value> = resource::list(system, "PCIeDevices", MAX_PARTS).cloned().collect();
    for link in &links {
        let Some(device) = session.full(link).await? else { continue };
        let Some(functions) = resource::link(&device, "PCIeFunctions") else { continue };
        let functions = session.all(&functions, MAX_FUNCTIONS).await?;
        let class = |function: &Value| function.get("DeviceClass").and_then(Value::as_str).map(str::to_owned);
        let is_gpu =
            |class: &String| ["DisplayController", "ProcessingAccelerators"].contains(&class.as_str());
        if functions.iter().filter_map(class).any(|class| is_gpu(&class)) {
            gpus.extend(part_of(&device, PartKind::Gpu));
        }
    }
    Ok(gpus)
}

/// A part that is there.
fn part_of(part: &Value, kind: PartKind) -> Option<Part> {
    let status = Status::of(part);
    if status.state() == Some("Absent") {
        return None;
    }
    Some(Part {
        id: text(part, "Id")?,
        kind,
        manufacturer: text(part, "Manufacturer"),
        model: text(part, "Model"),
        serial: text(part, "SerialNumber"),
        uuid: text(part, "UUID"),
        health: status.health(),
    })
}
