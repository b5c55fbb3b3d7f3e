import type { Owner } from "../../pkg/types/mod.ts"
import type { Mapping } from "./mapping.ts"
import type { Part } from "./parts.ts"

/** What is to be mapped, for whom. */
export interface Request {
  owner: Owner
  /** The path of the container's namespace. */
  netns: string
  parts: readonly Part[]
  /** All mappings, also those that are in no part: the container has no address of their family. */
  mappings: readonly Mapping[]
  snat: boolean
  masqAll: boolean
  /** What packets must meet besides, in nft's words, by family; none where there are no words. */
  conditions: { readonly ip: readonly string[]; readonly ip6: readonly string[] }
  /** The interface that needs `route_localnet` and outlives the container: the setting is not to outlive the mappings. */
  localnetLink: string | undefined
}
