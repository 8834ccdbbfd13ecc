package store_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// cutting says when the proxy cuts the connection.
type cutting string

const (
	cutBefore  cutting = "cut before COMMIT arrives"
	cutAfter   cutting = "cut after COMMIT is done"
	cutBetween cutting = "COMMIT arrives while the next try waits"
)

// commitMessage is COMMIT as pgx sends it: a simple query. What starts at once commits with its only statement, whose
// parameters hold the draft's image.
var (
	commitMessage = []byte("Q\x00\x00\x00\x0bcommit\x00")
	oneStatement  = []byte("rayproject/ray")
)

// commitProxy stands between a Store and Postgres and, once armed, cuts the connection that says COMMIT next.
type commitProxy struct {
	url     string
	how     cutting
	network string // of Postgres
	address string
	direct  string // URL without the proxy
	armed   atomic.Bool
	cut     atomic.Bool // it has happened since the last arm
}

// newCommitProxy serves on a loopback port until the test ends.
func newCommitProxy(t *testing.T, databaseURL string, how cutting) *commitProxy {
	t.Helper()
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &commitProxy{how: how, direct: databaseURL, url: through(t, databaseURL, listener.Addr().String())}
	p.network, p.address = pgconn.NetworkAddress(config.Host, config.Port)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(t, client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return p
}

// through returns the URL with the proxy's address and without TLS, which would hide the COMMIT.
func through(t *testing.T, databaseURL, address string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = address, query.Encode()
	return u.String()
}

func (p *commitProxy) arm() {
	p.cut.Store(false)
	p.armed.Store(true)
}

// serve passes one connection through until either end closes.
func (p *commitProxy) serve(t *testing.T, client net.Conn) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(context.Background(), p.network, p.address)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	var replies sync.WaitGroup
	var swallow atomic.Bool // the next reply must not reach the client
	replies.Go(func() {
		defer client.Close()
		passReplies(client, server, &swallow)
	})
	defer replies.Wait()
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		message := buffer[:n]
		if (bytes.Contains(message, commitMessage) || bytes.Contains(message, oneStatement)) && p.armed.CompareAndSwap(true, false) {
			if err := p.cutAt(client, server, message, &swallow, &replies); err != nil {
				t.Error(err)
			}
			return
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}

func passReplies(client, server net.Conn, swallow *atomic.Bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil || swallow.Load() {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cutAt ends the connection around the COMMIT. Where that is passed on, it waits for Postgres' reply, which nobody gets.
func (p *commitProxy) cutAt(client, server net.Conn, commit []byte, swallow *atomic.Bool, replied *sync.WaitGroup) error {
	p.cut.Store(true)
	if p.how == cutBefore {
		return nil
	}
	swallow.Store(true)
	if p.how == cutBetween {
		client.Close()
		if err := p.waitForRetry(); err != nil {
			return err
		}
	}
	_, err := server.Write(commit)
	replied.Wait()
	return err
}

// waitForRetry waits until the next try stands before a lock that this transaction holds, or has done its work where this
// transaction, whose only statement has not arrived, holds none.
func (p *commitProxy) waitForRetry() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.direct)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for waiting := 0; waiting == 0; {
		err := conn.QueryRow(ctx, `
			SELECT (
				SELECT count(*)
				FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'
			) + (
				SELECT count(*)
				FROM requests
				WHERE state = 'approved'
			)
			FROM pg_sleep(0.01)`).Scan(&waiting)
		if err != nil {
			return err
		}
	}
	return nil
}
