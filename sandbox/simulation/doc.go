// Package simulation holds the tests, on a real control plane, of what the simulated machines do together: the share
// scheduler's placements, KubeRay's clusters on them, and the stand-ins that answer for their heads.
//
// They need the sandbox's programs; SANDBOX_BIN names the folder that has them.
package simulation
