package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rayslice/rayslice/store"
)

// recorder is a pool that writes down what is read through it.
type recorder struct {
	*pgxpool.Pool
	statements []string
	err        error
}

// Query implements store.DB.
func (r *recorder) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	statement, err := literal(sql, args)
	r.statements, r.err = append(r.statements, statement), errors.Join(r.err, err)
	return r.Pool.Query(ctx, sql, args...)
}

// QueryRow implements store.DB.
func (r *recorder) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	statement, err := literal(sql, args)
	r.statements, r.err = append(r.statements, statement), errors.Join(r.err, err)
	return r.Pool.QueryRow(ctx, sql, args...)
}

// Exec implements store.DB. Reading a list changes nothing.
func (r *recorder) Exec(_ context.Context, sql string, _ ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, fmt.Errorf("the list executes %s", sql)
}

// script returns every statement that the portal sends for one list, who asks included, as one pgbench script.
func (p *portal) script(ctx context.Context, o options) (string, error) {
	read := &recorder{Pool: p.Pool}
	server, err := p.Over(ctx, store.New(read), o.Version)
	if err != nil {
		return "", err
	}
	defer server.Close()
	read.statements = nil
	if _, err := p.list(server); err != nil {
		return "", err
	}
	if len(read.statements) < 2 || read.err != nil {
		return "", fmt.Errorf("the list takes %d statements (%w)", len(read.statements), read.err)
	}
	return strings.Join(read.statements, ";\n") + ";\n", nil
}

// literal writes the arguments of a statement into it.
func literal(sql string, args []any) (string, error) {
	for len(args) > 0 {
		if _, ok := args[0].(pgx.QueryExecMode); !ok {
			break
		}
		args = args[1:]
	}
	for i := len(args) - 1; i >= 0; i-- { // $10 before $1
		var text string
		switch v := args[i].(type) {
		case string:
			text = quote(v)
		case bool, int, int64:
			text = fmt.Sprint(v)
		case []byte:
			text = fmt.Sprintf(`'\x%x'::bytea`, v)
		case []string:
			quoted := make([]string, len(v))
			for n, s := range v {
				quoted[n] = quote(s)
			}
			text = "ARRAY[" + strings.Join(quoted, ",") + "]::text[]"
		case *time.Time:
			text = "NULL"
			if v != nil {
				text = quote(v.Format(time.RFC3339Nano))
			}
		default:
			return "", fmt.Errorf("argument $%d is a %T", i+1, v)
		}
		sql = strings.ReplaceAll(sql, "$"+strconv.Itoa(i+1), text)
	}
	return strings.TrimSpace(sql), nil
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// pgbench returns how often per second all clients together run the script. It reads every row and looks at none.
func pgbench(ctx context.Context, o options, address, script string) (float64, error) {
	folder, err := os.MkdirTemp("", "bench-api")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "script.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return 0, err
	}
	command := exec.CommandContext(ctx, "pgbench", "--no-vacuum", "--client", strconv.Itoa(o.Clients), "--jobs", "2", "--protocol", "prepared",
		"--time", strconv.Itoa(int(o.Time.Seconds())), "--file", file, address)
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	found := tps.FindSubmatch(out)
	if err != nil || found == nil {
		return 0, fmt.Errorf("pgbench: %w\n%s%s", err, out, problems.Bytes())
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
