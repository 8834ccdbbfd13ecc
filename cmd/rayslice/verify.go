package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/web"
)

// verifyWait is how long verify waits for the portal to run the probe.
const verifyWait = 6 * time.Minute

// What verify exits with beside 0, every slice is enforced, and 1, which is what every command that fails exits with.
const (
	exitNotEnforced = 2 // at least one slice is not
	exitNotKnown    = 3 // none is known not to be, but not every one was shown to be: inconclusive, out of date, not verified
)

// A verdictError is a verdict other than enforced, once it is printed, for scripts.
type verdictError rayslice.Enforcement

// Error says the verdict in the words of the pages.
func (v verdictError) Error() string {
	if v == "" {
		return "not verified"
	}
	return strings.ReplaceAll(string(v), "_", " ")
}

// exitStatus is what the program ends with after an error.
func exitStatus(err error) int {
	var (
		verdict verdictError
		failure lintFailure
	)
	switch {
	case errors.As(err, &failure):
		return exitNotLinted
	case !errors.As(err, &verdict):
		return 1
	case verdict == verdictError(rayslice.NotEnforced):
		return exitNotEnforced
	}
	return exitNotKnown
}

// verify prints whether a cluster's slices are enforced, as its page does, and returns a verdictError unless all are. With
// Again the portal that runs on the same database first looks once more.
func verify(ctx context.Context, out io.Writer, config Config, command verifyCommand) error {
	if config.DatabaseURL == "" {
		return errNoDatabase
	}
	s, err := store.Open(ctx, config.DatabaseURL)
	if err != nil {
		return fmt.Errorf("RAYSLICE_DATABASE_URL: %w", err)
	}
	defer s.Close()
	id := strings.TrimPrefix(command.Cluster, "rs-")
	if command.Again {
		if err := verifyAgain(ctx, s, id); err != nil {
			return readable(err)
		}
	}
	cluster, err := s.Cluster(ctx, rayslice.System, id)
	if err != nil {
		return fmt.Errorf("no cluster %q: give the id at the end of its page's address (%w)", command.Cluster, err)
	}
	certificates, err := s.Certificates(ctx, rayslice.System, id)
	if err != nil {
		return err
	}
	if _, err = io.WriteString(out, web.VerificationReport(web.NewLocalizer("en"), cluster, certificates)); err != nil {
		return err
	}
	return judged(rayslice.NewBadge(cluster, rayslice.Standing(certificates)).Enforcement)
}

// judged turns the verdict on a cluster, which is that on its worst worker, into an error.
func judged(verdict rayslice.Enforcement) error {
	if verdict == rayslice.Enforced {
		return nil
	}
	return verdictError(verdict)
}

// verifyAgain asks for a run and waits for its end.
func verifyAgain(ctx context.Context, s *store.Store, id string) error {
	asked, err := s.AskVerification(ctx, rayslice.System, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, verifyWait)
	defer cancel()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		runs, err := s.Verifications(ctx, rayslice.System, id)
		if err != nil {
			return err
		}
		for _, run := range runs {
			if run.Run == asked.Run && !run.Open() {
				return nil
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.New("the verification has not ended: does a portal run on this database?")
		}
	}
}
