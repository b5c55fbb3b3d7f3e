import type { Interface, Result } from "../../pkg/types/mod.ts"
import type { LinkValues } from "./link.ts"

/** Where the changes took place: the container's interface, and those of the host whose MTU may be another by now. */
export interface Places {
  ifName: string
  /** By name. */
  hostMtus: ReadonlyMap<string, number>
}

/**
 * The result of the earlier plugins with the new MAC and MTU. An interface of the host that only has the same name as the
 * container's stays as it is; where no earlier plugin says what is in a sandbox, the name alone decides.
 */
export function tunedResult(previous: Result, { ifName, hostMtus }: Places, { mac, mtu }: LinkValues): Result {
  const saysSandbox = previous.interfaces.some(({ sandbox }) => sandbox)
  const interfaces = previous.interfaces.map((one): Interface => {
    const isInside = saysSandbox ? Boolean(one.sandbox) : one.name === ifName
    if (isInside && one.name === ifName) return { ...one, ...(mac && { mac }), ...(mtu && { mtu }) }
    const hostMtu = isInside ? undefined : hostMtus.get(one.name)
    return hostMtu === undefined ? one : { ...one, mtu: hostMtu }
  })
  return { ...previous, interfaces }
}
