import { expect, test } from "bun:test"
import { requestedMac } from "./requested-mac.ts"

const runtimeConfig = { mac: "0A:00:00:00:00:01" }
const args = { cni: { mac: "0a-00-00-00-00-02" } }
const cniArgs = "IgnoreUnknown=1;MAC=0a:00:00:00:00:03;K8S_POD_NAME=a"

test("runtimeConfig goes before args.cni, and that before CNI_ARGS", () => {
  expect(requestedMac({ runtimeConfig, args }, cniArgs)).toBe("0a:00:00:00:00:01")
  expect(requestedMac({ args }, cniArgs)).toBe("0a:00:00:00:00:02")
  expect(requestedMac({ runtimeConfig: {} }, cniArgs)).toBe("0a:00:00:00:00:03")
  expect(requestedMac({}, "")).toBeUndefined()
})

test("CNI_ARGS that cannot be read are an error, and for a cleanup nothing", () => {
  expect(() => requestedMac({}, "MAC=zz")).toThrow("CNI_ARGS")
  expect(requestedMac({}, "MAC=zz", true)).toBeUndefined()
  expect(requestedMac({ runtimeConfig }, "=;", true)).toBe("0a:00:00:00:00:01")
})
