package rayhead

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endAll kills every process whose working folder is the given one or below it, and returns when there is none: a job may
// start processes in sessions of their own, but they inherit the folder.
func endAll(dir string) {
	for range 500 {
		found := false
		for _, pid := range processesIn(dir) {
			found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
		}
		if !found {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func processesIn(dir string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil || dir == "" {
		return nil
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		if err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/")) {
			found = append(found, pid)
		}
	}
	return found
}
