import { expect, test } from "bun:test"
import { Lab } from "../pkg/libcni/testing/lab.ts"
import { recordingTerminal } from "../tools/testing.ts"
import { cnitool } from "./cnitool.ts"
import { completionScript } from "./completion.ts"

function labOfOne(): Lab {
  const lab = new Lab()
  lab.plugin("one")
  lab.conf("net.conflist", { cniVersion: "1.1.0", name: "net", plugins: [{ type: "one" }] })
  return lab
}

async function run(lab: Lab, args: string[], env: Record<string, string | undefined> = {}) {
  const terminal = recordingTerminal({ NETCONFPATH: lab.confDir, CNI_PATH: lab.binDir, PATH: process.env.PATH, ...env })
  const code = await cnitool(args, terminal, lab.cacheDir)
  return { code, out: terminal.out, err: terminal.err }
}

test("the help of the tool and of its commands, for each way to ask", async () => {
  using lab = labOfOne()
  const flags = `Flags:
  -h, --help            show this
  -i, --ifname string   name of the interface inside the namespace
`
  const tool = `Attaches network namespaces to CNI networks, with the command line of the reference tool.

Usage:
  cnitool COMMAND NETWORK NETNS [flags]

Commands:
  add         Attach a network namespace to a network and print the result
  check       Check that an attachment is unchanged since ADD
  del         Detach a network namespace from a network
  gc          Delete EVERY attachment of a network, of all containers (see 'cni gc' for a choice)
  status      Check that a network can be used
  completion  Print a script that completes command lines in a shell: bash, zsh, fish
  help        Show the help of a command

Environment:
  NETCONFPATH  directory of the network configurations (default /etc/cni/net.d)
  CNI_PATH     directories of the plugins, A:B; required
  CNI_ARGS     arguments for the plugins, K=V;K=V
  CAP_ARGS     values for capabilities, a JSON object
  CNI_IFNAME   name of the interface without --ifname (default eth0)

${flags}`
  for (const args of [[], ["--help"], ["-h"], ["help"], ["help", "help"], ["help", "frob"]])
    expect(await run(lab, args)).toEqual({ code: 0, out: tool, err: "" })
  const add = `Usage:\n  cnitool add NETWORK NETNS [flags]\n\n${flags}`
  for (const args of [
    ["help", "add"],
    ["add", "--help"],
    ["add", "-h"],
  ])
    expect(await run(lab, args)).toEqual({ code: 0, out: add, err: "" })
  for (const args of [["completion"], ["completion", "--help"], ["completion", "bash", "-h"], ["help", "completion"]]) {
    const { code, out } = await run(lab, args)
    expect([code, out]).toEqual([0, expect.stringContaining("Usage:\n  cnitool completion SHELL\n\nPrints a script")])
  }
})

test("completion passes over flags; a shell that it does not know is an error", async () => {
  using lab = labOfOne()
  const script = completionScript("cnitool", "bash")
  expect(await run(lab, ["completion", "--no-descriptions", "bash"])).toEqual({ code: 0, out: String(script), err: "" })
  const { code, out, err } = await run(lab, ["completion", "frob"])
  expect([code, out]).toEqual([1, ""])
  expect(err).toStartWith('Error: unknown shell "frob": expected bash, zsh, fish\nUsage:\n  cnitool completion SHELL\n')
  const commands = "add\ncheck\ndel\ngc\nstatus\ncompletion\nhelp\n"
  for (const args of [
    ["__complete", ""],
    ["__complete", "help", ""],
  ])
    expect(await run(lab, args)).toEqual({ code: 0, out: commands, err: "" })
  expect((await run(lab, ["__complete", "completion", ""])).out).toBe("bash\nzsh\nfish\n")
  expect((await run(lab, ["__complete", "add", ""])).out).toBe("net\n")
  expect((await run(lab, ["__complete", "add", "--"])).out).toBe("--help\n--ifname\n")
})

test("without CNI_PATH no plugin is found", async () => {
  using lab = labOfOne()
  const { code, err } = await run(lab, ["add", "net", "/run/netns/x"], { CNI_PATH: undefined })
  expect(code).toBe(1)
  expect(err).toContain('no paths provided; CNI_PATH holds no absolute directory to search for plugin "one"')
})
