import { expect, test } from "bun:test"
import { RecordedNetwork, recordedPlugins } from "./recorded.ts"

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value))
const list = { cniVersion: "1.1.0", name: "pods", plugins: [{ type: "bridge" }] }

test("a recorded network is read once, however often it is looked at", () => {
  const config = encode(list)
  const recorded = new RecordedNetwork(config)
  const first = recorded.network?.plugins
  config.fill(0)
  expect(first?.map(({ type }) => type)).toEqual(["bridge"])
  expect(recorded.network?.plugins).toBe(first as never)
})

test("plugins of a record that cannot be read, or of none, are not known", () => {
  expect(recordedPlugins(undefined)).toBeUndefined()
  expect(new RecordedNetwork(new Uint8Array()).network).toBeUndefined()
  const cached = { config: encode(list) } as never
  expect(recordedPlugins(cached)?.length).toBe(1)
})
