package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// isOurs reports whether the process is alive and was started for this folder: every component's command line names it.
func isOurs(pid int, dir string) bool {
	if pid <= 0 {
		return false
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.Contains(command, []byte(dir+"/"))
}

// memoryMiB is what the process holds in memory; 0 when it is gone.
func memoryMiB(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var kib int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib / 1024
		}
	}
	return 0
}
