import { describe, expect, test } from "bun:test"
import { CniError, Code, validateContainerId, validateInterfaceName, validateNetworkName } from "./mod.ts"

function refusal(check: () => void): { code: number; message: string; details: string | undefined } | undefined {
  try {
    check()
  } catch (error) {
    if (error instanceof CniError) return { code: error.code, message: error.message, details: error.details }
    throw error
  }
  return undefined
}

describe("container ID", () => {
  test("#61 some-%%container-id is refused with code 4, and details are the ID [S2]", () => {
    const refused = refusal(() => validateContainerId("some-%%container-id"))
    expect(refused?.code).toBe(Code.InvalidEnvironment)
    expect(refused?.message).toContain("invalid characters in containerID (CNI_CONTAINERID)")
    expect(refused?.details).toBe("some-%%container-id")
  })

  test.each(["a", "0", "4f5_6.7-8", "x".repeat(4096)])("%p passes", (id) => {
    expect(refusal(() => validateContainerId(id))).toBeUndefined()
  })

  test.each(["-a", ".a", "_a", "..", "a/b", "a b", "a\n", "é"])("%j is refused with code 4", (id) => {
    expect(refusal(() => validateContainerId(id))?.code).toBe(Code.InvalidEnvironment)
  })

  test("#44 an empty one is code 3: no container is known, so there is nothing to clean up", () => {
    expect(refusal(() => validateContainerId(""))).toMatchObject({ code: Code.UnknownContainer })
  })
})

describe("network name", () => {
  test("#70 a missing name is code 7", () => {
    const refused = refusal(() => validateNetworkName(""))
    expect(refused?.code).toBe(Code.InvalidNetworkConfig)
    expect(refused?.message).toContain("missing network name")
  })

  test("#71 te%%st is code 7, and details are the name", () => {
    const refused = refusal(() => validateNetworkName("te%%st"))
    expect(refused).toMatchObject({ code: Code.InvalidNetworkConfig, details: "te%%st" })
    expect(refused?.message).toContain("invalid characters found in network name")
  })

  test("a name cannot lead out of a directory [S1]", () => {
    expect(refusal(() => validateNetworkName("../x"))?.code).toBe(Code.InvalidNetworkConfig)
    expect(refusal(() => validateNetworkName("my_net.1-a"))).toBeUndefined()
  })
})

describe("interface name", () => {
  test("#62 16 bytes are refused with code 4, 15 bytes pass [S4]", () => {
    const refused = refusal(() => validateInterfaceName("a".repeat(16)))
    expect(refused?.code).toBe(Code.InvalidEnvironment)
    expect(refused?.message).toContain("interface name is too long")
    expect(refused?.details).toBe("interface name should be less than 16 characters")
    expect(refusal(() => validateInterfaceName("a".repeat(15)))).toBeUndefined()
  })

  test("#63 bytes count, not characters: 8 characters of two bytes are too long", () => {
    expect(refusal(() => validateInterfaceName("é".repeat(8)))?.message).toContain("interface name is too long")
    expect(refusal(() => validateInterfaceName("é".repeat(7)))).toBeUndefined()
  })

  test.each([".", ".."])("#64 %p is refused with code 4", (name) => {
    const refused = refusal(() => validateInterfaceName(name))
    expect(refused?.code).toBe(Code.InvalidEnvironment)
    expect(refused?.message).toContain("interface name is . or ..")
  })

  test.each(["a/b", "a:1", "a b", "a\tb", "a\n", "a\u0085", "a\u00a0", "a\u2003", "a\u3000", "a\0"])(
    "#65 %j is refused with code 4 [S3]",
    (name) => {
      const refused = refusal(() => validateInterfaceName(name))
      expect(refused?.code).toBe(Code.InvalidEnvironment)
      expect(refused?.message).toContain("interface name contains / or : or whitespace characters")
    },
  )

  test("a name in which the kernel would put a number is refused with code 4", () => {
    expect(refusal(() => validateInterfaceName("net%d"))).toMatchObject({ code: 4, details: "net%d" })
  })

  test.each(["eth0", "...", "a\u0001", "a\ufeff", "a@b"])("%j passes: the kernel takes it", (name) => {
    expect(refusal(() => validateInterfaceName(name))).toBeUndefined()
  })

  test("an empty one is refused with code 4", () => {
    expect(refusal(() => validateInterfaceName(""))?.message).toContain("interface name is empty")
  })
})
