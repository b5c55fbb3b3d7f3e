import type { Owner } from "../../pkg/types/mod.ts"
import type { PortmapConfig } from "./config.ts"
import type { MappedAddress, PortmapSpec } from "./mapping.ts"
import { findLocalnetLink } from "./route-localnet.ts"

/** What is to be mapped, and the interface that has to let 127.0.0.1 through to the container, if there is one. */
export function prepare(
  { owner, netns }: { owner: Owner; netns: string },
  config: PortmapConfig,
  addresses: readonly MappedAddress[],
  findLink: typeof findLocalnetLink = findLocalnetLink,
): { spec: PortmapSpec; localnet: string | undefined } {
  const link = config.snat ? findLink(addresses) : undefined
  const links = { localnetLink: link?.isShared ? link.name : undefined, openedLink: link?.name }
  const { snat, masqAll, conditions, markMasqBit, externalSetMarkChain } = config
  const spec = {
    ...{ snat, masqAll, conditions, markMasqBit, externalSetMarkChain },
    owner,
    netns,
    addresses,
    mappings: config.portMappings ?? [],
    ...links,
  }
  return { spec, localnet: link?.name }
}
