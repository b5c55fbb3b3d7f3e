import { afterEach, describe, expect, test } from "bun:test"
import { cpSync, existsSync, linkSync, writeFileSync } from "node:fs"
import { engine } from "../pkg/engine/mod.ts"
import { install } from "./install.ts"
import { rollback } from "./rollback.ts"
import { Site } from "./testing.ts"
import { uninstall } from "./uninstall.ts"
import { verify } from "./verify.ts"

/** Simulates the installer's death: from a chosen call on, each call of the engine throws this. */
class Killed extends Error {}

const calls = engine as unknown as Record<string, (...values: unknown[]) => number>
const originals = { ...calls }
/** Calls that change the disk. A kill at any other call has the same effect as a kill at the next of these calls. */
const changing = [
  "open",
  "write",
  "fsync",
  "flock",
  "linkat",
  "mkdirat",
  "fchmodat",
  "lsetxattr",
  "rename",
  "unlink",
  "rmdir",
]

/** Makes the process die at the given call that changes the disk. `made` returns the number of such calls so far. */
function dyingAt(at: number): { made: () => number; opened: number[] } {
  let made = 0
  const opened: number[] = []
  for (const [name, call] of Object.entries(originals)) {
    if (typeof call !== "function") continue
    calls[name] = (...values) => {
      if (made >= at) throw new Killed()
      if (changing.includes(name) && ++made >= at) throw new Killed()
      const answer = call(...values)
      if (name === "open" && answer >= 0) opened.push(answer)
      return answer
    }
  }
  return { made: () => made, opened }
}

/** Runs `act` and kills it at a call. Closes its descriptors as the kernel does. Returns whether it was killed. */
function isKilledAt(at: number, act: () => unknown): boolean {
  const { made, opened } = dyingAt(at)
  try {
    act()
    return false
  } catch (error) {
    if (made() < at) throw error
    return true
  } finally {
    Object.assign(calls, originals)
    for (const fd of opened) engine.close(fd)
  }
}

afterEach(() => {
  Object.assign(calls, originals)
})

const names = ["bridge", "loopback", "vrf"]
const versions = (site: Site) => {
  const files = Object.values(site.files())
  expect(files.every((content) => /^(version [12]|theirs), (bridge|loopback|vrf)$/.test(content))).toBe(true) // no file is incomplete
  return [...new Set(files.map((content) => content.slice(0, content.indexOf(","))))].sort().join()
}

/** Runs `act` once for each of its system calls, from the same directory, and kills it there. Returns the number. */
function killAtEach(
  prepare: (site: Site) => void,
  act: (site: Site) => unknown,
  check: (site: Site, at: number) => void,
) {
  for (let at = 1; ; at++) {
    using site = new Site()
    prepare(site)
    if (!isKilledAt(at, () => act(site))) return at - 1
    check(site, at)
  }
}

const upgraded = (site: Site) => {
  install(site.suite("version 1", names))
  site.suite("version 2", names)
}

describe("an installer that is killed at any of its calls", () => {
  test("leaves whole files under every name, and the next installation ends at the new suite", () => {
    const seen = new Set<string>()
    const count = killAtEach(
      upgraded,
      (site) => install(site.suite("version 2", names)),
      (site) => {
        expect(Object.keys(site.files())).toEqual(names)
        seen.add(versions(site))
        install(site.suite("version 2", names))
        expect(versions(site)).toBe("version 2")
        expect(verify(site.directory)).toMatchObject({ differences: [], interrupted: undefined })
        expect(site.kept().filter((path) => /^(staging|ready)/.test(path))).toEqual([])
        site.back()
        expect(versions(site)).toBe("version 1")
      },
    )
    expect(count).toBeGreaterThan(40)
    expect([...seen].sort()).toEqual(["version 1", "version 1,version 2", "version 2"])
  })

  test("is taken back by a rollback: to the old suite when the new one was decided, and to what was before it when not", () => {
    killAtEach(
      upgraded,
      (site) => install(site.suite("version 2", names)),
      (site, at) => {
        const decided = verify(site.directory)?.interrupted === "install" || site.kept().includes("before-2")
        site.back()
        expect([at, versions(site)]).toEqual([at, decided ? "version 1" : ""])
        const files = site.files()
        site.back()
        expect(site.files()).toEqual(files)
      },
    )
  })

  test("is finished by the next one, but for a file that others have placed since", () => {
    killAtEach(
      upgraded,
      (site) => install(site.suite("version 2", names)),
      (site) => {
        const verified = verify(site.directory)
        expect(verified?.differences).toEqual([])
        if (verified?.interrupted === undefined) return
        site.foreign("vrf", "theirs, vrf")
        expect(() => install(site.suite("version 2", names))).toThrow('"vrf" was placed by other programs')
        expect(site.files()).toMatchObject({ bridge: "version 2, bridge", vrf: "theirs, vrf" })
      },
    )
  })

  test("is finished by the next one also where a name gets another file of the same bytes", () => {
    killAtEach(
      (site) => {
        install(site.suite("version 1", names))
        for (const name of names) linkSync(`${site.directory}/${name}`, `${site.root}/${name}`)
      },
      (site) => install(site.suite("version 1", names)),
      (site) => {
        install(site.suite("version 1", names))
        expect(verify(site.directory)).toMatchObject({ differences: [], interrupted: undefined })
      },
    )
  })

  test("is not finished by one that does not know its manifest", () => {
    let count = 0
    killAtEach(
      upgraded,
      (site) => install(site.suite("version 2", names)),
      (site) => {
        if (verify(site.directory)?.interrupted === undefined) return
        const files = site.files()
        writeFileSync(`${site.directory}/.cni-install/manifest.json`, JSON.stringify({ format: 2 }))
        expect(() => install(site.suite("version 2", names))).toThrow("a newer version of this installer wrote it")
        expect([site.files(), site.kept()]).toEqual([files, expect.arrayContaining(["ready/steps.json"])])
        count++
      },
    )
    expect(count).toBeGreaterThan(3)
  })

  test("leaves a directory of others as it was, once it is taken back", () => {
    killAtEach(
      (site) => site.foreign("bridge", "theirs, bridge"),
      (site) => install({ ...site.suite("version 1", names), adopt: true }),
      (site, at) => {
        if (verify(site.directory)) site.back()
        expect([at, site.files()]).toEqual([at, { bridge: "theirs, bridge" }])
      },
    )
  })

  test("in a rollback ends at the old suite by the next rollback", () => {
    killAtEach(
      (site) => {
        upgraded(site)
        install(site.suite("version 2", names))
      },
      (site) => site.back(),
      (site) => {
        expect(Object.keys(site.files())).toEqual(names)
        site.back()
        expect(versions(site)).toBe("version 1")
      },
    )
  })

  const two = (site: Site) => [site.directory, site.other]

  test("is taken back in both of two directories, or in none of them", () => {
    const seen = new Set<string>()
    killAtEach(
      (site) => site.installBoth("version 1", "version 1"),
      (site) => site.installBoth("version 2", "version 2"),
      (site) => {
        seen.add(site.both().join(" / "))
        rollback(two(site))
        const [bin, tools] = site.both()
        expect(["version 1", ""]).toContain(bin ?? "none") // none if the only installation was undone
        expect(tools).toBe(bin ?? "none")
        rollback(two(site))
        expect(site.both()).toEqual([bin ?? "none", tools ?? "none"])
      },
    )
    expect([...seen]).toEqual(expect.arrayContaining(["version 2 / version 1", "version 2 / version 2"]))
  })

  test("between two directories is gone on with by the next one, and both are taken back", () => {
    const seen = new Set<string>()
    killAtEach(
      (site) => {
        site.installBoth("version 1", "version 1")
        site.installBoth("version 2", "version 2")
      },
      (site) => site.installBoth("version 3", "version 3"),
      (site, at) => {
        seen.add(site.both().join(" / "))
        site.installBoth("version 3", "version 3")
        rollback(two(site))
        expect([at, ...site.both()]).toEqual([at, "version 2", "version 2"])
      },
    )
    expect([...seen]).toContain("version 3 / version 2")
  })

  test("between two directories is not gone on with by one of another version", () => {
    killAtEach(
      (site) => site.installBoth("version 1", "version 1"),
      (site) => site.installBoth("version 2", "version 2"),
      (site, at) => {
        for (const directory of two(site)) install({ ...site.suite("nothing", []), directory }) // completes the committed change
        const left = site.both()
        site.installBoth("version 3", "version 3")
        expect([at, ...site.both()]).toEqual([at, "version 3", "version 3"])
        rollback(two(site))
        expect([at, ...site.both()]).toEqual([at, ...left])
      },
    )
  })

  test("in a rollback of two directories ends at the old suite in both by the next rollback", () => {
    const seen = new Set<string>()
    killAtEach(
      (site) => {
        site.installBoth("version 0", "version 0")
        site.installBoth("version 0", "version 1")
        site.installBoth("version 2", "version 1")
      },
      (site) => rollback(two(site)),
      (site) => {
        seen.add(site.both().join(" / "))
        for (let times = 1; times <= 2; times++) {
          rollback(two(site))
          expect(site.both()).toEqual(["version 0", "version 1"])
        }
      },
    )
    expect([...seen]).toContain("version 2 / version 1")
  })

  test("in an uninstallation leaves nothing of this suite after the next one, and gives back what was displaced", () => {
    killAtEach(
      (site) => {
        site.foreign("bridge", "theirs, bridge")
        install({ ...site.suite("version 1", names), adopt: true })
      },
      (site) => uninstall(site),
      (site) => {
        if (existsSync(`${site.directory}/.cni-install`)) uninstall(site)
        expect(existsSync(`${site.directory}/.cni-install`)).toBe(false)
        expect(site.files()).toEqual({ bridge: "theirs, bridge" })
      },
    )
  })
})

test("a full disk at any write changes nothing, and what was prepared is removed", () => {
  const ENOSPC = -28
  for (let at = 1, failed = true; failed; at++) {
    using site = new Site()
    upgraded(site)
    const [before, kept] = [site.files(), site.kept()]
    let made = 0
    const full = new Set<string>(["open", "write", "mkdirat", "linkat", "fsync"])
    for (const name of full) {
      calls[name] = (...values) => {
        const makes = name !== "open" || (Number(values[1]) & 0o100) !== 0
        return makes && ++made >= at ? ENOSPC : (originals[name]?.(...values) ?? 0)
      }
    }
    let error: unknown
    try {
      install(site.suite("version 2", names))
    } catch (thrown) {
      error = thrown
    }
    Object.assign(calls, originals)
    failed = error !== undefined
    if (!failed) break
    expect(error).toMatchObject({ code: 5, message: expect.stringContaining("Cannot install into") })
    if (verify(site.directory)?.interrupted === undefined && versions(site) === "version 1") {
      expect([at, site.files(), site.kept()]).toEqual([at, before, kept])
    } else {
      install(site.suite("version 2", names)) // the disk did not confirm the committed change
      expect(versions(site)).toBe("version 2")
    }
  }
})

test("what an installer prepared that was killed is removed by the next one", () => {
  using site = new Site()
  install(site.suite("version 1", names))
  cpSync(site.suite("version 2", names).from, `${site.directory}/.cni-install/staging/files`, { recursive: true })
  install(site.suite("version 1", names))
  expect(site.kept()).toEqual(["before-1", "manifest.json", "seen.json"])
})
