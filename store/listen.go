package store

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// channel is where transactions announce what they changed.
const channel = "rayslice_changes"

// Kinds of a Change.
const (
	KindRequest = "request" // a request was created or changed its state
	KindCluster = "cluster" // what was observed about a request changed
	KindFleet   = "fleet"   // what was observed about nodes and pools changed
	KindTeam    = "team"    // a team's limit or its raises changed
	KindUse     = "use"     // what was found out about the use of clusters changed
)

// A Change says what to read again. With Resync set nothing else is: notifications may have been missed, so everything may
// have changed.
type Change struct {
	Kind   string   `json:"kind"`
	ID     string   `json:"id,omitempty"`  // of the request, or the team's name; "" for the fleet and for use
	IDs    []string `json:"ids,omitempty"` // of the requests whose use changed
	Resync bool     `json:"-"`
}

// Bounds of the wait before connecting again, and how often a silent connection is tested.
const (
	minBackoff  = 100 * time.Millisecond
	maxBackoff  = 5 * time.Second
	silentCheck = 30 * time.Second
)

// Listen calls fn for every change, one at a time and soon after its commit, until ctx ends, and returns ctx's error. It
// has a connection of its own, connects again when that is lost, and gives a Resync after every connect. A change whose portal was killed
// right after the commit is not heard of, so whoever must not miss one looks at everything now and then. fn must be
// quick: while it runs nothing else is heard.
func (s *Store) Listen(ctx context.Context, fn func(Change)) error {
	if s.pool == nil {
		return errNoPool
	}
	backoff := minBackoff
	for ctx.Err() == nil {
		connected := s.listenOnce(ctx, fn)
		if connected {
			backoff = minBackoff
		}
		sleep(ctx, backoff/2+rand.N(backoff/2))
		backoff = min(2*backoff, maxBackoff)
	}
	return ctx.Err()
}

// listenOnce listens on one connection until that is lost, and reports whether it had begun to listen.
func (s *Store) listenOnce(ctx context.Context, fn func(Change)) (connected bool) {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return false
	}
	defer closeConn(conn)
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		return false
	}
	fn(Change{Resync: true})
	for {
		n, err := waitForNotification(ctx, conn)
		if err != nil {
			return true
		}
		fn(changeOf(n.Payload))
	}
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it is lost or of no more use
}

// waitForNotification also notices a peer that vanished without a word.
func waitForNotification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	for {
		quiet, cancel := context.WithTimeout(ctx, silentCheck)
		n, err := conn.WaitForNotification(quiet)
		silent := quiet.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !silent {
			return n, err
		}
		if err := ping(ctx, conn); err != nil {
			return nil, err
		}
	}
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, maxBackoff)
	defer cancel()
	return conn.Ping(ctx)
}

// changeOf reads a notification; one that is not ours to read may mean anything.
func changeOf(payload string) Change {
	var c Change
	if err := json.Unmarshal([]byte(payload), &c); err != nil || c.Kind == "" {
		return Change{Resync: true}
	}
	return c
}
