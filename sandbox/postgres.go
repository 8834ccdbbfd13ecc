package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rayslice/rayslice/sandbox/supervisor"
)

// role owns the product's database, of the same name. It may create databases, for tests, and nothing else. appRole owns
// nothing: the product works as it, with what the owner grants.
const (
	role    = "rayslice"
	appRole = "rayslice_app"
)

// postgres is the sandbox's own database server.
type postgres struct {
	dir        string              // the sandbox's folder
	home       string              // its own, as its user reaches it; set by prepare
	bin        string              // where its programs are
	port       int                 // on 127.0.0.1
	fsync      bool                // off makes tests faster and loses data when the machine stops
	credential *syscall.Credential // nil for our own user
}

// findPostgres looks for the server's programs in the given folder, or in PATH and where Debian keeps them.
func findPostgres(folder string) (string, error) {
	if folder != "" {
		if _, err := exec.LookPath(filepath.Join(folder, "initdb")); err != nil {
			return "", fmt.Errorf("no initdb in %s: point --postgres-bin at the folder of PostgreSQL's server programs", folder)
		}
		return folder, nil
	}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		real, err := filepath.EvalSymlinks(initdb)
		return filepath.Dir(real), err
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is right
	if len(found) == 0 {
		return "", errors.New("no PostgreSQL server found: `apt-get install postgresql`, or point --postgres-bin at its programs, or use --no-postgres")
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return majorVersion(a) - majorVersion(b) })
	return filepath.Dir(newest), nil
}

// majorVersion reads 15 from /usr/lib/postgresql/15/bin/initdb.
func majorVersion(path string) int {
	version, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 sorts an odd name first
	return version
}

func (p *postgres) data() string    { return filepath.Join(p.home, "data") }
func (p *postgres) sockets() string { return filepath.Join(p.home, "run") }

// prepare creates the server's files once. PostgreSQL refuses to run as root, so root lends it another user.
func (p *postgres) prepare(ctx context.Context) error {
	if err := p.chooseUser(); err != nil {
		return err
	}
	link := filepath.Join(p.dir, "postgres")
	if err := p.createHome(link); err != nil {
		return fmt.Errorf("create %s: %w", link, err)
	}
	var err error
	if p.home, err = filepath.EvalSymlinks(link); err != nil {
		return err
	}
	if _, err := os.Stat(p.data()); errors.Is(err, fs.ErrNotExist) {
		if err := p.initialize(ctx); err != nil {
			return fmt.Errorf("create the database: %w", err)
		}
	} else if err != nil {
		return err
	}
	if err := p.addAppRole(ctx); err != nil {
		return fmt.Errorf("create the role %s: %w", appRole, err)
	}
	return nil
}

// addAppRole creates the role that owns nothing, once, also in data of a version that had none. A role that is left of a
// run that was cut gets the new password.
func (p *postgres) addAppRole(ctx context.Context) error {
	if _, err := os.Stat(p.passwordFile(appRole)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	password := secret()
	statements := fmt.Sprintf("DO $$BEGIN CREATE ROLE %[1]s; EXCEPTION WHEN duplicate_object THEN END$$;\nALTER ROLE %[1]s LOGIN PASSWORD '%[2]s';\n", appRole, password)
	if err := p.run(ctx, statements, "postgres", "--single", "-D", p.data(), "postgres"); err != nil {
		return err
	}
	return writeFile(p.passwordFile(appRole), []byte(password))
}

func (p *postgres) chooseUser() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
		p.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return errors.Join(uidErr, gidErr)
	}
	return errors.New("PostgreSQL does not run as root and there is no user postgres or nobody: run the sandbox as another user")
}

// createHome makes the folder, elsewhere and linked when the server's user may not pass through the sandbox's parents, as
// when these are root's home. The link comes last, so that a folder half made is not taken for a whole one.
func (p *postgres) createHome(link string) error {
	if _, err := os.Stat(link); err == nil {
		return nil
	}
	folder := link + ".part"
	if p.credential != nil && !passable(p.dir) {
		folder = filepath.Join("/var/tmp", "rayslice-sandbox-"+secret())
	}
	run := filepath.Join(folder, "run")
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700), os.Mkdir(run, 0o700)); err != nil {
		return err
	}
	if p.credential != nil {
		uid, gid := int(p.credential.Uid), int(p.credential.Gid)
		if err := errors.Join(os.Chown(folder, uid, gid), os.Chown(run, uid, gid)); err != nil {
			return err
		}
	}
	if filepath.Dir(folder) == p.dir {
		return os.Rename(folder, link)
	}
	return errors.Join(os.RemoveAll(link), os.Symlink(folder, link))
}

// passable reports whether every user may reach files below the folder.
func passable(folder string) bool {
	for ; folder != "/"; folder = filepath.Dir(folder) {
		if info, err := os.Stat(folder); err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
	}
	return true
}

// initialize creates the data folder with the product's role and database, all or nothing.
func (p *postgres) initialize(ctx context.Context) error {
	part, passwordFile := p.data()+".part", filepath.Join(p.home, "superuser")
	password := secret()
	if err := errors.Join(os.RemoveAll(part), p.writeOwned(passwordFile, secret()), writeFile(p.passwordFile(role), []byte(password))); err != nil {
		return err
	}
	arguments := []string{"-D", part, "-U", "postgres", "--pwfile", passwordFile, "--auth", "scram-sha-256", "-E", "UTF8", "--no-locale"}
	if !p.fsync {
		arguments = append(arguments, "--no-sync")
	}
	if err := p.run(ctx, "", "initdb", arguments...); err != nil {
		return err
	}
	statements := fmt.Sprintf("CREATE ROLE %s LOGIN CREATEDB PASSWORD '%s';\nCREATE DATABASE %s OWNER %s;\n", role, password, role, role)
	if err := p.run(ctx, statements, "postgres", "--single", "-D", part, "postgres"); err != nil {
		return err
	}
	return os.Rename(part, p.data())
}

func (p *postgres) passwordFile(name string) string {
	if name == role {
		return filepath.Join(p.dir, "postgres.password")
	}
	return filepath.Join(p.dir, "postgres."+name+".password")
}

func (p *postgres) writeOwned(path, content string) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil || p.credential == nil {
		return err
	}
	return os.Chown(path, int(p.credential.Uid), int(p.credential.Gid))
}

// run runs one of the server's programs to its end, as the server's user.
func (p *postgres) run(ctx context.Context, input, program string, arguments ...string) error {
	command := exec.CommandContext(ctx, filepath.Join(p.bin, program), arguments...)
	command.Dir = p.home
	command.Stdin = strings.NewReader(input)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: p.credential, Setpgid: true}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// url is how a role reaches the product's database.
func (p *postgres) url(name string) (string, error) {
	password, err := os.ReadFile(p.passwordFile(name))
	if err != nil {
		return "", err
	}
	address := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(name, string(password)),
		Host:     "127.0.0.1:" + strconv.Itoa(p.port),
		Path:     "/" + role,
		RawQuery: "sslmode=disable",
	}
	return address.String(), nil
}

func (p *postgres) component() supervisor.Component {
	sockets := p.sockets()
	if len(sockets) > 90 { // the kernel takes 107 bytes including the socket's own name
		sockets = ""
	}
	return supervisor.Component{
		Name: "postgres",
		Path: filepath.Join(p.bin, "postgres"),
		Args: []string{
			"-D", p.data(),
			"-c", "sandbox.folder=" + p.dir + "/", // tells whose it is, to an up that finds it left over
			"-p", strconv.Itoa(p.port),
			"-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=" + sockets,
			"-c", "max_connections=200",
			"-c", "fsync=" + onOff(p.fsync),
			"-c", "full_page_writes=" + onOff(p.fsync),
			"-c", "synchronous_commit=" + onOff(p.fsync),
		},
		Dir:        p.home,
		Credential: p.credential,
		Stop:       syscall.SIGINT,  // fast: ends sessions instead of waiting for them
		Orphaned:   syscall.SIGQUIT, // at once, with its children; the log is replayed at the next start
		Ready:      p.isReady,
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// isReady reads what pg_ctl reads: the last line of postmaster.pid tells how far the server is.
func (p *postgres) isReady(context.Context) error {
	content, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	lines := strings.Split(string(content), "\n")
	if len(lines) < 8 || strings.TrimSpace(lines[7]) != "ready" {
		return errors.New("starting")
	}
	if pid, err := strconv.Atoi(lines[0]); err != nil || syscall.Kill(pid, 0) != nil {
		return errors.New("its lock file is an earlier server's")
	}
	return nil
}
