import { expect, test } from "bun:test"
import { chmod, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { NodeLab, podsNetwork } from "./node-lab.ts"

/**
 * Returns a shell script for the last plugin of a chain. While the file `kill` exists, its ADD kills the tool that
 * called it.
 */
const lastPlugin = (kill: string) => `#!/bin/sh
case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}' ;;
ADD)
  if [ -e ${kill} ]; then kill -9 $PPID; fi
  exec ${process.execPath} -e 'console.log(JSON.stringify(JSON.parse(await Bun.stdin.text()).prevResult))'
  ;;
"") echo "CNI last plugin v1.0.0" >&2; exit 1 ;;
esac
`

test("cni reattach that was killed between DEL and ADD is repeated with the same address", async () => {
  await using lab = await NodeLab.create({ ...podsNetwork, plugins: [...podsNetwork.plugins, { type: "last" }] })
  const kill = lab.directory.join("kill")
  await lab.useOwnPlugins(async (directory) => {
    await writeFile(join(directory, "last"), lastPlugin(kill))
    await chmod(join(directory, "last"), 0o755)
  })
  await lab.addPod("a")
  const pod = await lab.addPod("b")
  const address = async () => (await pod.tryExec("ip", ["-4", "-o", "address", "show", "eth0"])).stdout.split(/\s+/)[3]
  expect(await address()).toBe("10.85.0.3/24")
  const attachment = `pods/${pod.name}/eth0`
  await writeFile(kill, "")
  expect((await lab.cni(["reattach", attachment])).exitCode).not.toBe(0)
  await lab.host.exec("rm", [kill])
  await lab.host.exec("ip", ["link", "delete", await endOf(lab, pod.name)])
  const again = await lab.cni(["reattach", attachment])
  expect(again).toMatchObject({ exitCode: 0, stdout: `Attached ${attachment} again\n` })
  expect(await address()).toBe("10.85.0.3/24")
  const { findings } = await lab.doctor()
  expect(findings.filter(({ severity }) => severity === "error")).toEqual([])
})

/** Returns the host's end of a container's veth pair. */
async function endOf({ host }: NodeLab, container: string): Promise<string> {
  const links = await host.json<{ ifname: string; ifalias?: string }[]>("ip", ["-j", "link"])
  return links.find(({ ifalias }) => ifalias?.includes(container))?.ifname ?? ""
}
