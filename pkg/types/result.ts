/**
 * A result of ADD, in the form of CNI 1.1.0 without its version label: what plugins compute with. Addresses are text:
 * "10.1.2.3/24" where a prefix belongs, "10.1.2.1" where none does. Results of older versions are read into this form
 * by `decodeResult` and written from it by `encodeResult`.
 */
export interface Result {
  interfaces: Interface[]
  ips: IpConfig[]
  routes: Route[]
  dns: Dns
}

/** One interface of the attachment. `sandbox` is absent for those that stay on the host. */
export interface Interface {
  name: string
  mac?: string
  mtu?: number
  sandbox?: string
  socketPath?: string
  pciID?: string
}

/** One address. `interface` is an index into `Result.interfaces`. */
export interface IpConfig {
  address: string
  gateway?: string
  interface?: number
}

/** One route. `scope` and `table` are the kernel's numbers; a lower `priority` wins. */
export interface Route {
  dst: string
  gw?: string
  mtu?: number
  advmss?: number
  priority?: number
  table?: number
  scope?: number
}

/** Name resolution, informational for the runtime. */
export interface Dns {
  nameservers?: string[]
  domain?: string
  search?: string[]
  options?: string[]
}
