import { dns, type Fields, type Schema } from "../../pkg/config/mod.ts"

const text = { kind: "text" } as const
const list = (of: typeof text) => ({ kind: "list", of }) as const

const flag = { kind: "boolean" } as const

/** The keys of a network's list, beside `plugins` (CNI 1.1.0, "Configuration format"). */
export const networkKeys = {
  cniVersion: text,
  cniVersions: list(text),
  name: { kind: "text", required: true },
  disableCheck: flag,
  disableGC: flag,
  loadOnlyInlinedPlugins: flag,
} as const satisfies Fields

/** What no plugin looks into, unless its own table has the key. */
export const anything: Schema = { kind: "object", fields: {} }

/** The keys that the specification gives every plugin of a list (CNI 1.1.0, "Plugin configuration objects"). */
export const pluginKeys = {
  type: { kind: "text", required: true },
  name: text,
  cniVersion: text,
  capabilities: { kind: "record", of: flag },
  ipam: { kind: "object", fields: { type: text } },
  dns,
  args: anything,
} as const satisfies Fields

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

/** What host-local hands on to the result as it is written. */
export const hostLocalKeys = { ipam: { kind: "object", fields: { routes } } } as const satisfies Fields

/** What static hands on to the result as it is written. */
export const staticKeys = { ipam: { kind: "object", fields: { routes, dns } } } as const satisfies Fields

/** Keys that only a runtime may set (CNI 1.1.0, "Plugin configuration objects"). */
export const reservedKeys: readonly string[] = ["runtimeConfig", "prevResult"]
