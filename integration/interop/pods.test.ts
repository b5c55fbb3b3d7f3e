import { Containerd } from "./containerd.ts"
import { testPods } from "./pod-cases.ts"

testPods("containerd", () => Containerd.create())
