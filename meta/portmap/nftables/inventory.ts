import { findElements, type Netfilter } from "../../../pkg/nftables/mod.ts"
import { families, printHostPort, printIpPort } from "../mapping.ts"
import { decodeNote, readDnat } from "./elements.ts"
import { tableLayout } from "./table.ts"

/** A port of the host that leads to a container, as the kernel has it, for people and tools. */
export interface PortRule {
  /** "8080/tcp", "203.0.113.1:8080/tcp" */
  readonly hostPort: string
  readonly port: number
  readonly protocol: string
  /** "10.1.0.2:80" */
  readonly to: string
  /** "network/container/interface"; "" when the element names nothing. */
  readonly owner: string
  /** The path of the container's namespace, where it is noted. */
  readonly netns?: string
}

/** Returns the ports that are mapped by nf_tables, like `nft list map ip cni_hostports ports`. Throws `NetlinkError`. */
export function portRulesIn(socket: Pick<Netfilter, "dump">): PortRule[] {
  return families.flatMap((family) => {
    const { ports, addressPorts } = tableLayout(family)
    const elements = [ports, addressPorts].flatMap((set) => findElements(socket, set)?.elements ?? [])
    return elements.flatMap((element): PortRule[] => {
      const mapping = readDnat(element)
      if (mapping === undefined) return []
      const { netns } = decodeNote(element.note) ?? {}
      return [
        {
          hostPort: printHostPort(mapping),
          port: mapping.hostPort,
          protocol: mapping.protocol,
          to: printIpPort(mapping.containerIp, mapping.containerPort),
          owner: element.comment ?? "",
          ...(netns === undefined ? {} : { netns }),
        },
      ]
    })
  })
}
