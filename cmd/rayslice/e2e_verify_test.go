package main

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/web"
)

// TestVerifyCommand prints what the portal that runs has found out about a cluster, and has it look once more.
func TestVerifyCommand(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.start()
	made, err := i.call(http.MethodPost, "/api/v1/requests", "verify", draftOf("verify", 2))
	i.must(err)
	i.untilState(made.ID, rayslice.StateReady)
	for n, arguments := range [][]string{{"verify", "rs-" + made.ID}, {"verify", made.ID, "--again"}} {
		out, status := i.command(arguments...)
		i.checkReport(made.ID, out, n+1)
		if status != 0 {
			t.Errorf("%v exits with %d, though the slice is enforced", arguments, status)
		}
	}
	draft := strings.Replace(draftOf("waits", 22), "{", `{"purpose": "to wait", `, 1) // more than starts at once
	waiting, err := i.call(http.MethodPost, "/api/v1/requests", "verify-waits", draft)
	i.must(err)
	if out, status := i.command("verify", waiting.ID); status != exitNotKnown || !strings.Contains(out, "not verified") {
		t.Errorf("of a cluster that was never verified it exits with %d: %s", status, out)
	}
	if out, status := i.command("verify", "nosuchcluster"); status != 1 || !strings.Contains(out, "nosuchcluster") {
		t.Errorf("of a cluster that is none it exits with %d: %s", status, out)
	}
}

// command runs the program as somebody on its machine does, and returns what it prints and exits with.
func (i *installation) command(arguments ...string) (printed string, status int) {
	i.Helper()
	c := exec.CommandContext(i.Context(), os.Args[0], arguments...)
	c.Env = append(os.Environ(), i.env...)
	_, err := c.StdinPipe() // the program ends with its standard input
	i.must(err)
	out, err := c.CombinedOutput()
	i.Logf("%v: %v\n%s", arguments, err, out)
	return string(out), c.ProcessState.ExitCode()
}

// checkReport compares what was printed with the latest of so many certificates of a cluster of one worker.
func (i *installation) checkReport(id, out string, want int) {
	i.Helper()
	certificates, err := i.store.Certificates(i.Context(), rayslice.System, id)
	i.must(err)
	if len(certificates) != want {
		i.Fatalf("%d certificates, want %d", len(certificates), want)
	}
	verdict := web.NewLocalizer("en").T("verdict_" + string(certificates[0].Judgement.Enforcement))
	if line := certificates[0].Target.Pod + "  " + verdict; !strings.Contains(out, line) || !strings.Contains(out, web.NewLocalizer("en").T("check_beyond")) {
		i.Errorf("printed without %q:\n%s", line, out)
	}
}
