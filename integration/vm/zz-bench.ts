import { runMachine } from "./machine.ts"
import { qemu } from "./qemu.ts"

const [cpu = "max", extra = "", memArgs = ""] = process.argv.slice(2)
const kernel = {
  ...qemu,
  command: (boot: Parameters<typeof qemu.command>[0]) => {
    const c = qemu.command(boot)
    c[c.indexOf("-cpu") + 1] = cpu
    c[c.indexOf("-append") + 1] += " " + extra
    if (memArgs) c[c.indexOf("-accel") + 1] += "," + memArgs
    return c
  },
}
const r = await runMachine(kernel, {
  patience: 20,
  runs: [{ title: cpu + extra, files: ["./integration/loopback.test.ts"] }],
})
console.log(JSON.stringify(r?.verdict))
