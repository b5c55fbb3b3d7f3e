import type { Dns, Interface, JsonObject, Route } from "../types/mod.ts"

/** A checked result of ADD in the network's version, which a runtime stores and reads. */
export interface ResultDocument {
  /** The network's version. "0.1.0" if the network has no `cniVersion`. */
  readonly cniVersion: string
  /** The interfaces, from version 0.3.0 on. */
  readonly interfaces?: readonly Interface[]
  /** The addresses, from version 0.3.0 on. */
  readonly ips?: readonly ResultAddress[]
  /** The routes, from version 0.3.0 on. */
  readonly routes?: readonly Route[]
  readonly dns?: Dns
  /** The IPv4 address, up to version 0.2.0. */
  readonly ip4?: OldAddress
  /** The IPv6 address, up to version 0.2.0. */
  readonly ip6?: OldAddress
  readonly [key: string]: unknown
}

/** One address of a result; `interface` is an index into `interfaces`. */
export interface ResultAddress {
  /** The address with its prefix length: "10.1.0.2/16". */
  readonly address: string
  readonly gateway?: string
  readonly interface?: number
  /** The address family, up to version 0.4.0. */
  readonly version?: "4" | "6"
}

/** The address of one family in a result up to version 0.2.0. */
export interface OldAddress {
  readonly ip: string
  readonly gateway?: string
  readonly routes?: readonly { readonly dst: string; readonly gw?: string }[]
}

/** Values for the capabilities that plugins declare, by their names in CNI's conventions. */
export interface CapabilityArgs {
  readonly portMappings?: readonly PortMapping[]
  readonly bandwidth?: Bandwidth
  /** For host-local: sets of ranges. The container gets an address of each set. */
  readonly ipRanges?: readonly (readonly IpRange[])[]
  /** The requested addresses, with or without prefix length. */
  readonly ips?: readonly string[]
  readonly mac?: string
  readonly infinibandGUID?: string
  /** The device chosen by a device plugin, for example a PCI address. */
  readonly deviceID?: string
  readonly aliases?: readonly string[]
  readonly cgroupPath?: string
  readonly dns?: {
    readonly servers?: readonly string[]
    readonly searches?: readonly string[]
    readonly options?: readonly string[]
  }
  readonly [capability: string]: unknown
}

/** A port of the host that is mapped to the container. */
export interface PortMapping {
  readonly hostPort: number
  readonly containerPort: number
  readonly protocol?: "tcp" | "udp" | "sctp"
  readonly hostIP?: string
}

/** Limits of bandwidth: bits per second, and bits of a burst. 0 means no limit. */
export interface Bandwidth {
  readonly ingressRate?: number
  readonly ingressBurst?: number
  readonly egressRate?: number
  readonly egressBurst?: number
}

/** A range of addresses in a subnet. */
export interface IpRange {
  readonly subnet: string
  readonly rangeStart?: string
  readonly rangeEnd?: string
  readonly gateway?: string
}

/** The content of a `.conflist`. */
export interface NetworkListConfig {
  readonly name: string
  readonly cniVersion?: string
  readonly cniVersions?: readonly string[]
  readonly disableCheck?: boolean
  readonly disableGC?: boolean
  readonly loadOnlyInlinedPlugins?: boolean
  readonly plugins?: readonly PluginConfig[]
  readonly [key: string]: unknown
}

/** One plugin of a `.conflist`: the keys of the specification, and the plugin's own. */
export interface PluginConfig {
  /** The name of its executable. */
  readonly type: string
  readonly capabilities?: { readonly [capability: string]: boolean }
  readonly ipam?: { readonly type?: string; readonly [key: string]: unknown }
  readonly dns?: Dns
  readonly args?: JsonObject
  readonly [key: string]: unknown
}

/** A plugin that is a network by itself: the content of a `.conf`. */
export interface SinglePluginConfig extends PluginConfig {
  readonly name: string
  readonly cniVersion?: string
}
