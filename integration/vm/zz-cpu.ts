import { join } from "node:path"
import { TemporaryDirectory } from "../mod.ts"
import { makeInitramfs } from "./initramfs.ts"
import { qemu } from "./qemu.ts"
const [cpu = "max", extra = "", accel = "", files = ""] = process.argv.slice(2)
const { modules, image } = await qemu.find()
await using s = await TemporaryDirectory.create("cni-vm")
await using r = await TemporaryDirectory.create("cni-vmr")
const f = await makeInitramfs(s.path, { share: "9p", reports: r.path, modules, checkout: join(import.meta.dir, "../..") }, qemu.initModules)
await Bun.write(r.join("job.json"), JSON.stringify({ runs: files === "" ? [] : [{ title: "x", files: files.split(" ").map((x) => `./integration/${x}`) }], patience: 20 }))
const c = qemu.command({ image, initramfs: f, reports: r.path })
c[c.indexOf("-cpu") + 1] = cpu
c[c.indexOf("-append") + 1] += " " + extra
if (accel) c[c.indexOf("-accel") + 1] = accel
const t = performance.now()
const p = Bun.spawn(c, { stdin: "ignore", stdout: "pipe", stderr: "inherit" })
const out = await p.stdout.text()
await p.exited
const u = p.resourceUsage()
const ok = await Bun.file(r.join("verdict.json")).exists()
console.log(cpu, extra, accel, ok, "wall", Math.round(performance.now() - t), "user", Number(u?.cpuTime.user) / 1e6, "sys", Number(u?.cpuTime.system) / 1e6)
if (!ok) console.log(out.slice(0, 800))
