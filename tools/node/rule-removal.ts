import { Hostports } from "../../meta/portmap/main.ts"
import { Masquerade } from "../../pkg/masquerade/mod.ts"
import { NamespaceFile } from "../../pkg/netns/mod.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import type { Owner } from "../../pkg/types/mod.ts"
import { Failures } from "../../pkg/undo/mod.ts"

/**
 * Deletes the published ports and the masquerade of a deleted container from both packet filters, like DEL of this
 * suite's plugins, but without running a plugin. Also deletes rules of the reference suite, which name no interface:
 * `ifName` is then empty. Throws `CniError` after all steps.
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

/** Deletes rules like `deleteRulesOf`, of all attachments to a network except those in `valid`. Throws `CniError`. */
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
