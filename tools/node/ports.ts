import { encodeUtf8, findBytes } from "../../pkg/engine/mod.ts"
import type { CachedAttachment } from "../../pkg/libcni/mod.ts"
import { isJsonObject, member } from "../../pkg/types/mod.ts"
import { foreign } from "./foreign.ts"

/** A port that the runtime has asked to be mapped. */
export interface AskedMapping {
  readonly hostIp: string
  readonly hostPort: number
  readonly containerPort: number
  readonly protocol: string
}

/** The ports that ADD had to map; empty for a network without portmap, although runtimes pass the same values to it. */
export function askedMappings({ config, capabilityArgs }: CachedAttachment): AskedMapping[] {
  const { portMappings } = capabilityArgs
  if (!Array.isArray(portMappings) || findBytes(config, encodeUtf8('"portmap"'), 0) === -1) return []
  return portMappings.filter(isJsonObject).flatMap((mapping) => {
    // containerd writes the names of Go's fields: "HostPort".
    const hostPort = Number(member(mapping, "hostPort"))
    const [protocol, hostIp] = [member(mapping, "protocol"), member(mapping, "hostIP")]
    if (!(hostPort > 0)) return []
    return [
      {
        hostIp: typeof hostIp === "string" && !/^(0\.0\.0\.0|::)$/.test(hostIp) ? foreign(hostIp) : "",
        hostPort,
        containerPort: Number(member(mapping, "containerPort")),
        protocol: typeof protocol === "string" && protocol !== "" ? foreign(protocol.toLowerCase()) : "tcp",
      },
    ]
  })
}

/** The mappings that the runtime asked for, as `ports` of an attachment. */
export function askedPorts(cached: CachedAttachment | undefined): string[] {
  return (cached ? askedMappings(cached) : []).map(
    ({ hostIp, hostPort, containerPort, protocol }) =>
      `${hostIp ? `${hostIp.includes(":") ? `[${hostIp}]` : hostIp}:` : ""}${hostPort}→${containerPort}/${protocol}`,
  )
}
