import { flushUntranslated } from "../conntrack/mod.ts"
import type { NamespaceFile } from "../netns/mod.ts"
import {
  type Feature,
  type Filter,
  OwnedRules,
  onFlows,
  type RestorableRules,
  type RestoreOptions,
} from "../rules/mod.ts"
import { formatCidr, keyOf } from "../types/mod.ts"
import { IptablesMasquerade } from "./iptables.ts"
import { NftablesMasquerade } from "./nftables.ts"
import { byFamily, type MasqueradeSpec } from "./spec.ts"
import { UpstreamMasquerade } from "./upstream.ts"

const feature: Feature<MasqueradeSpec> = {
  rules: "masquerade",
  does: (spec) => ["masquerade", spec?.addresses.map(formatCidr).join(" and ")].filter(Boolean).join(" "),
  needs: "the kernel needs nf_tables with NAT",
  key: "ipMasqBackend",
}

/**
 * The masquerade of containers in the thread's namespace: packets that leave the container's network get the host's
 * address. `remove` reads the container's namespace only for rules that the Go plugins have added.
 *
 * @example
 * using filter = PacketFilter.find()
 * const masquerade = new Masquerade(filter)
 * masquerade.add({ owner, addresses }, config.ipMasqBackend, undo)
 */
export class Masquerade extends OwnedRules<MasqueradeSpec, NamespaceFile> {
  readonly #filter: Filter | undefined

  /** `filter` is undefined if the kernel has no nf_tables. */
  constructor(filter: Filter | undefined) {
    super(feature, filter, {
      nftables: filter && new NftablesMasquerade(filter),
      iptables: new IptablesMasquerade(filter),
      otherSuite: filter && new UpstreamMasquerade(filter),
    })
    this.#filter = filter
  }

  /** Restores rules. Deletes connections that began without masquerade, because they get no replies. */
  override restore(wanted: readonly RestorableRules<MasqueradeSpec>[], options: RestoreOptions): void {
    super.restore(wanted, options, (specs) => {
      for (const [family, addresses] of byFamily(specs.flatMap((spec) => spec.addresses))) {
        const ours = new Set(addresses.map(({ ip }) => keyOf(ip)))
        onFlows(this.#filter, (socket) => flushUntranslated(socket, family, ({ source }) => ours.has(keyOf(source))))
      }
    })
  }
}
