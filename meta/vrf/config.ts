import { type Fields, interfaceName, invalidConfig, isCleanup, type KeyDoc, parseConfig } from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import type { NetworkConfig } from "../../pkg/types/mod.ts"

const NAME = "the name of a VRF, 1 to 15 bytes"

export const vrfFields = {
  vrfname: { ...interfaceName, expected: NAME, form: NAME },
  table: { kind: "integer", min: 0, max: 2 ** 32 - 1, default: 0 },
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const vrfKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["vrfname"],
    default: "required",
    meaning: "the VRF, a link of the container; created if it does not exist. Several interfaces may share one VRF",
  },
  {
    paths: ["table"],
    default: "0: a free one",
    meaning: "the VRF's routing table. An existing VRF must have this table. Two VRFs may share a table",
  },
]

export type VrfConfig = ReturnType<typeof parseVrfConfig>

/** Parses the configuration. For DEL and GC, ignores invalid values; otherwise throws code 7 that names the key. */
export function parseVrfConfig(_network: NetworkConfig, { verb, raw }: ConfigCall) {
  const { vrfname, table } = parseConfig(vrfFields, raw, isCleanup(verb))
  if (vrfname === undefined && !isCleanup(verb)) throw invalidConfig("vrfname", NAME, undefined)
  /** `vrfname` is undefined only for DEL and GC. If `table` is undefined, ADD chooses a free one. */
  return { vrfname, table: table || undefined }
}
