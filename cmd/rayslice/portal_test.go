package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	rayclient "github.com/ray-project/kuberay/ray-operator/pkg/client/clientset/versioned"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/k8s"
	"github.com/rayslice/rayslice/store"
	"github.com/rayslice/rayslice/store/storetest"
)

// patience is how long a test waits for what must come; nothing waits that long when all is well.
const patience = 90 * time.Second

// asProgram makes the test binary be the program, so that tests can run, stop and kill it as a process of its own.
const asProgram = "RAYSLICE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the test is gone
	}()
	main()
}

// installation is the portal as somebody would install it: the shipped rights, a database, teams' namespaces and a Lease of
// its own on the shared sandbox.
type installation struct {
	*testing.T
	core       kubernetes.Interface
	ray        rayclient.Interface
	store      *store.Store
	mei        rayslice.User // whose token is printed
	namespace  string        // of team vision
	lease      string        // namespace of the Lease
	url        string
	kubeconfig string // of the portal's service account
	env        []string
	portal     *process // the one that runs now
}

func install(t *testing.T) *installation {
	t.Helper()
	admin := administrator(t)
	i := &installation{T: t, store: storetest.New(t), lease: "e2e-" + rayslice.NewRequestID()}
	i.namespace, i.kubeconfig = i.lease+"-vision", filepath.Join(filepath.Dir(admin), "portal.kubeconfig")
	i.must(grantRights(t.Context(), admin))
	config, err := k8s.LoadConfig(admin)
	i.must(err)
	config.QPS, config.Burst = 200, 400
	i.core, i.ray = kubernetes.NewForConfigOrDie(config), rayclient.NewForConfigOrDie(config)
	i.allowLease()
	t.Cleanup(func() {
		for _, namespace := range []string{i.namespace, i.lease} {
			_ = i.core.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{})
		}
	})
	addr := freeAddr(t)
	i.url = "http://" + addr
	i.env = []string{
		asProgram + "=1",
		"RAYSLICE_ADDR=" + addr,
		"RAYSLICE_DATABASE_URL=" + storetest.AppURL(t),
		"RAYSLICE_MIGRATE_URL=" + storetest.URL(t),
		"RAYSLICE_KUBECONFIG=" + i.kubeconfig,
		"RAYSLICE_NAMESPACE=" + i.lease,
		"RAYSLICE_TEAMS=" + i.teams(),
		"RAYSLICE_PERSONA_SIGN_IN=true",
		"RAYSLICE_CREATE_NAMESPACES=true",
	}
	return i
}

// allowLease gives the portal in a namespace of its own what deploy/ gives it in "rayslice".
func (i *installation) allowLease() {
	i.Helper()
	ctx, meta := i.Context(), metav1.ObjectMeta{Name: "rayslice"}
	_, err := i.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.lease}}, metav1.CreateOptions{})
	i.must(err)
	shipped, err := i.core.RbacV1().Roles("rayslice").Get(ctx, "rayslice", metav1.GetOptions{})
	i.must(err)
	_, err = i.core.RbacV1().Roles(i.lease).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: shipped.Rules}, metav1.CreateOptions{})
	i.must(err)
	_, err = i.core.RbacV1().RoleBindings(i.lease).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "rayslice"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "rayslice", Namespace: "rayslice"}},
	}, metav1.CreateOptions{})
	i.must(err)
}

// teams writes the demo's teams and people, with the namespaces of this installation.
func (i *installation) teams() string {
	i.Helper()
	file := filepath.Join(i.TempDir(), "teams.yaml")
	i.must(os.WriteFile(file, bytes.ReplaceAll(demoTeams, []byte("namespace: team-"), []byte("namespace: "+i.lease+"-")), 0o600))
	return file
}

func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (i *installation) must(err error) {
	i.Helper()
	if err != nil {
		i.Fatal(err)
	}
}

// until polls until ok, and fails the test when that takes too long.
func (i *installation) until(what string, ok func() bool) {
	i.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			i.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// process is one run of the portal.
type process struct {
	cmd   *exec.Cmd
	token string        // of Mei Lin, for the API
	done  chan struct{} // closed when it has ended; ProcessState is set then
}

// start runs the portal until it listens. It is killed when the test ends.
func (i *installation) start() {
	i.Helper()
	said := &announcement{token: make(chan string, 1)}
	c := exec.Command(os.Args[0], "serve")
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), i.env...), said, i.Output()
	_, err := c.StdinPipe() // closed when this test binary ends, however it ends
	i.must(err)
	i.must(c.Start())
	p := &process{cmd: c, done: make(chan struct{})}
	go func() {
		_ = c.Wait() // ProcessState tells
		close(p.done)
	}()
	i.Cleanup(func() { _ = c.Process.Kill(); <-p.done })
	select {
	case p.token = <-said.token:
	case <-p.done:
		i.Fatalf("the portal ended: %v", c.ProcessState)
	case <-time.After(patience):
		i.Fatal("the portal does not listen")
	}
	i.portal = p
	if i.mei.ID == 0 {
		personas, err := i.store.Personas(i.Context(), rayslice.System)
		i.must(err)
		i.mei = personas[0]
	}
}

// announcement picks the token out of what the portal prints as soon as it listens.
type announcement struct {
	text  bytes.Buffer
	token chan string
}

var bearer = regexp.MustCompile(`Bearer (rayslice_pat_\w+)'`)

func (a *announcement) Write(p []byte) (int, error) {
	n, err := a.text.Write(p)
	if found := bearer.FindSubmatch(a.text.Bytes()); found != nil {
		select {
		case a.token <- string(found[1]):
		default: // told already
		}
	}
	return n, err
}

// kill ends the portal as kill -9 does.
func (i *installation) kill() {
	i.Helper()
	i.must(i.portal.cmd.Process.Kill())
	<-i.portal.done
}

// dropLease lets the next portal lead at once. The last one is dead: waiting until its Lease runs out proves nothing more.
func (i *installation) dropLease() {
	i.Helper()
	err := i.core.CoordinationV1().Leases(i.lease).Delete(i.Context(), "rayslice", metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		i.must(err)
	}
}

// holdLease keeps every portal from reconciling until dropLease. None may run.
func (i *installation) holdLease() {
	i.Helper()
	i.dropLease()
	now := metav1.NowMicro()
	_, err := i.core.CoordinationV1().Leases(i.lease).Create(i.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "rayslice"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("somebody else"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	i.must(err)
}

// leads waits until the portal reconciles.
func (i *installation) leads() {
	i.Helper()
	host, err := os.Hostname()
	i.must(err)
	identity := fmt.Sprintf("%s-%d", host, i.portal.cmd.Process.Pid)
	i.until("the portal leads", func() bool {
		lease, err := i.core.CoordinationV1().Leases(i.lease).Get(i.Context(), "rayslice", metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == identity
	})
}

// answer is a request as the API tells it.
type answer struct {
	ID     string
	State  rayslice.State
	Detail string
	status int
}

// call sends one request to the API as Mei Lin.
func (i *installation) call(method, path, key, body string) (answer, error) {
	request, err := http.NewRequestWithContext(i.Context(), method, i.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+i.portal.token)
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	return i.send(request)
}

func (i *installation) send(request *http.Request) (answer, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	got := answer{status: response.StatusCode}
	return got, json.NewDecoder(response.Body).Decode(&got)
}

func draftOf(name string, gib int) string {
	return fmt.Sprintf(`{"team": "vision", "name": %q, "hours": 8, "pool": "a10", "slice_gib": %d, "workers": 1}`, name, gib)
}

func (i *installation) request(id string) rayslice.Request {
	i.Helper()
	request, err := i.store.Work(i.Context(), rayslice.System, id)
	i.must(err)
	return request
}

func (i *installation) untilState(id string, want rayslice.State) {
	i.Helper()
	i.until(id+" is "+string(want), func() bool { return i.request(id).State == want })
}

// checkNothingLeft fails unless every object and pod is gone and the whole quota is back.
func (i *installation) checkNothingLeft() {
	i.Helper()
	objects, err := i.ray.RayV1().RayClusters(i.namespace).List(i.Context(), metav1.ListOptions{})
	i.must(err)
	pods, err := i.core.CoreV1().Pods(i.namespace).List(i.Context(), metav1.ListOptions{})
	i.must(err)
	if len(objects.Items)+len(pods.Items) > 0 {
		i.Errorf("%d RayClusters and %d pods are left", len(objects.Items), len(pods.Items))
	}
	quota, err := i.store.Quota(i.Context(), i.mei, "vision")
	i.must(err)
	drift, err := i.store.QuotaDrift(i.Context(), rayslice.System)
	i.must(err)
	if quota.Used != (rayslice.Charge{}) || len(drift) > 0 {
		i.Errorf("quota used %+v, drift %+v", quota.Used, drift)
	}
}
