import type { CachedAttachment } from "../../pkg/libcni/mod.ts"
import { isJsonObject, type JsonObject, member } from "../../pkg/types/mod.ts"
import { foreign } from "./foreign.ts"
import { type RecordedNetwork, recordedPlugins } from "./recorded.ts"

/** A record of an ADD, with its parsed network if it was read with others. */
type Cached = CachedAttachment & { readonly recorded?: RecordedNetwork }

export interface AskedMapping {
  readonly hostIp: string
  readonly hostPort: number
  readonly containerPort: number
  readonly protocol: string
}

/**
 * Returns the port mappings that the ADD had to publish: none for a network without portmap, although runtimes record
 * the mappings there too. With Multus, the delegate with portmap has its own record.
 */
export function askedMappings(cached: Cached): AskedMapping[] {
  const { portMappings } = cached.capabilityArgs
  if (!Array.isArray(portMappings) || !recordedPlugins(cached)?.some(({ type }) => type === "portmap")) return []
  return portMappings.filter(isJsonObject).flatMap((mapping) => {
    // containerd writes the names of Go's fields, such as "HostPort".
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

/** Returns the requested mappings in the format of an attachment's `ports`. */
export function askedPorts(cached: Cached | undefined): string[] {
  return (cached ? askedMappings(cached) : []).map(
    ({ hostIp, hostPort, containerPort, protocol }) =>
      `${hostIp ? `${hostIp.includes(":") ? `[${hostIp}]` : hostIp}:` : ""}${hostPort}→${containerPort}/${protocol}`,
  )
}

/** Returns the host's part of a port: "203.0.113.1:8080/tcp" for "203.0.113.1:8080→80/tcp". */
export function hostPart(port: string): string {
  return port.replace(/→\d+/, "")
}

/** Returns a port such as "8080→80/tcp" as an object. */
export function portAsJson(port: string): JsonObject {
  const [, hostIP, hostPort, containerPort, protocol = ""] = /^(?:\[?(.*?)\]?:)?(\d+)→(\d+)\/(.+)$/.exec(port) ?? []
  return {
    ...(hostIP === undefined ? {} : { hostIP }),
    hostPort: Number(hostPort),
    containerPort: Number(containerPort),
    protocol,
  }
}
