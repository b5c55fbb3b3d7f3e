import { FlightRecorder } from "../flight/mod.ts"
import { type Owner, ownerOf } from "../types/mod.ts"
import type { Call } from "./plugin.ts"

/** The ring of announcements, in the form of the flight recorder's. `cni reconcile` makes it; where it is not, nothing is announced. */
export const ANNOUNCEMENTS = "/run/cni/announcements"

/**
 * Announces an ADD or DEL before its first change, for a `cni reconcile` beside it: what that makes again after an attachment's DEL is
 * taken back. Never throws: a line that is lost is found by GC.
 */
export function announce(call: Pick<Call, "verb" | "network" | "containerId" | "ifName">, file = ANNOUNCEMENTS): void {
  if (call.verb !== "ADD" && call.verb !== "DEL") return
  using ring = FlightRecorder.find(file)
  const { network, containerId: container, ifName }: Owner = ownerOf(call)
  try {
    ring?.record({ time: "", plugin: "", verb: call.verb, network, container, interface: ifName, ms: 0, exitCode: 0 })
  } catch {}
}
