/** Keys that plugins pass on unchanged to other plugins. `cni schema` and `cni lint` use these tables. */
import { dns, type Fields, type Schema } from "../pkg/config/mod.ts"

/** An object whose keys no plugin checks, unless the plugin's own table has the key. */
export const anything: Schema = { kind: "object", fields: {} }

const text = { kind: "text" } as const
const number = { kind: "integer" } as const

const routes = {
  kind: "list",
  of: {
    kind: "object",
    fields: {
      dst: { kind: "text", required: true },
      gw: text,
      mtu: number,
      advmss: number,
      priority: number,
      table: number,
      scope: number,
    },
  },
} as const

/** The keys that flannel passes on to its delegate. */
export const flannelKeys: Fields = { delegate: anything, ipam: anything, runtimeConfig: anything }

/** The keys that host-local copies into its result. */
export const hostLocalKeys = { ipam: { kind: "object", fields: { routes } } } as const satisfies Fields

/** The keys that static copies into its result. */
export const staticKeys = { ipam: { kind: "object", fields: { routes, dns } } } as const satisfies Fields
