import { Hostports } from "../../meta/portmap/main.ts"
import { Masquerade } from "../../pkg/masquerade/mod.ts"
import { NamespaceFile } from "../../pkg/netns/mod.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import type { Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"

/**
 * Deletes the published ports and the masquerade that a container which is gone has left in either packet filter, made by either
 * suite, as DEL of this suite's plugins does. Those of the other suite name no interface: `ifName` is then empty. Needs no
 * plugin. Throws `CniError` after all steps.
 */
export function deleteRulesOf(owner: Owner): void {
  removeRules(
    (hostports) => hostports.remove(owner, { mappings: [], addresses: [] }),
    (masquerade) => {
      using namespace = NamespaceFile.open("")
      masquerade.remove(owner, namespace)
    },
  )
}

/** Deletes what `deleteRulesOf` deletes for all attachments to a network but the valid ones, as GC does. Throws `CniError`. */
export function deleteStaleRules(network: string, valid: readonly Owner[]): void {
  removeRules(
    (hostports) => hostports.gc(network, valid),
    (masquerade) => masquerade.gc(network, valid),
  )
}

function removeRules(
  removePorts: (ports: Hostports) => void,
  removeMasquerade: (masquerade: Masquerade) => void,
): void {
  const failures = new Failures()
  failures.attempt("delete the published ports", () => {
    using hostports = Hostports.open()
    removePorts(hostports)
  })
  failures.attempt("delete the masquerade", () => {
    using filter = PacketFilter.find()
    removeMasquerade(new Masquerade(filter))
  })
  failures.throwIfAny()
}
