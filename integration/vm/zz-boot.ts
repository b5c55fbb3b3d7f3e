import { join } from "node:path"
import { execa } from "execa"
import { mustRun, TemporaryDirectory } from "../mod.ts"
import { makeInitramfs } from "./initramfs.ts"
import { qemu } from "./qemu.ts"

const { modules, image } = await qemu.find()
for (let i = 0; i < 20; i++) {
  await using s = await TemporaryDirectory.create("cni-vm")
  await using r = await TemporaryDirectory.create("cni-vmr")
  const f = await makeInitramfs(
    s.path,
    { share: "9p", reports: r.path, modules, checkout: join(import.meta.dir, "../..") },
    qemu.initModules,
  )
  await Bun.write(r.join("job.json"), JSON.stringify({ runs: [], patience: 20 }))
  const [c = "", ...a] = qemu.command({ image, initramfs: f, reports: r.path })
  const { stdout, durationMs } = await execa(c, a, {
    stdin: "ignore",
    reject: false,
    timeout: 60000,
    killSignal: "SIGKILL",
  })
  const ok = await Bun.file(r.join("verdict.json")).exists()
  console.log(i, ok, Math.round(durationMs))
  if (!ok) {
    await mustRun(["cp", f, `/tmp/vmh-log/bad-${i}.cpio`])
    console.log(stdout.slice(0, 600))
  }
}
