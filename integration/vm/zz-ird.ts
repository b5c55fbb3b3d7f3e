import { mustRun, TemporaryDirectory } from "../mod.ts"
import { makeInitramfs } from "./initramfs.ts"
import { qemu } from "./qemu.ts"

const { modules } = await qemu.find()
const sizes = new Map<number, number>()
for (let i = 0; i < 60; i++) {
  await using s = await TemporaryDirectory.create("cni-vm")
  const f = await makeInitramfs(s.path, { share: "9p", reports: "/r", modules, checkout: "/c" }, qemu.initModules)
  const { stdout } = await mustRun(["cpio", "-itF", f])
  const n = stdout.split("\n").length
  sizes.set(n, (sizes.get(n) ?? 0) + 1)
  if (i === 0) console.log(stdout)
}
console.log(sizes)
