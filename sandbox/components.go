package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rayslice/rayslice/sandbox/supervisor"
)

// programs are the control plane's, by the names under which they are built.
var programs = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kuberay-operator", "kwok"}

// controlPlane knows how each of Kubernetes' programs is run here.
type controlPlane struct {
	dir      string         // the sandbox's folder
	bin      string         // where the programs are
	identity identity       // certificates and tokens
	ports    map[string]int // by component
	fsync    bool           // off makes etcd faster and loses data when the machine stops
	probe    *http.Client   // asks components for their health
}

// checkPrograms says which programs the folder lacks.
func checkPrograms(bin string) error {
	var missing []string
	for _, program := range programs {
		if _, err := exec.LookPath(filepath.Join(bin, program)); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s lacks %s: build them with `make sandbox`, or point --bin at the folder that has them", bin, strings.Join(missing, ", "))
	}
	return nil
}

// connect prepares the client for health checks; the certificates must exist.
func (c *controlPlane) connect() error {
	authority, err := os.ReadFile(c.identity.file("ca.crt"))
	if err != nil {
		return err
	}
	client, err := tls.LoadX509KeyPair(c.identity.file("server.crt"), c.identity.file("server.key"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	c.probe = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}},
	}}
	return nil
}

func (c *controlPlane) address(component string) string {
	return "127.0.0.1:" + strconv.Itoa(c.ports[component])
}

// healthy asks for a component's health page.
func (c *controlPlane) healthy(scheme, component, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+c.address(component)+path, nil)
		if err != nil {
			return err
		}
		response, err := c.probe.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(path + " answers " + response.Status)
		}
		return nil
	}
}

func (c *controlPlane) component(name string, ready func(context.Context) error, arguments ...string) supervisor.Component {
	return supervisor.Component{Name: name, Path: filepath.Join(c.bin, name), Args: arguments, Dir: c.dir, Ready: ready}
}

func (c *controlPlane) etcd() supervisor.Component {
	client, peer := "https://"+c.address("etcd"), "https://"+c.address("etcd-peer")
	arguments := []string{
		"--name=sandbox",
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=sandbox=" + peer,
		"--client-cert-auth",
		"--peer-client-cert-auth",
		"--trusted-ca-file=" + c.identity.file("ca.crt"),
		"--cert-file=" + c.identity.file("server.crt"),
		"--key-file=" + c.identity.file("server.key"),
		"--peer-trusted-ca-file=" + c.identity.file("ca.crt"),
		"--peer-cert-file=" + c.identity.file("server.crt"),
		"--peer-key-file=" + c.identity.file("server.key"),
		"--quota-backend-bytes=" + strconv.Itoa(4<<30),
		"--log-level=error", // it warns of every connection that the API server gives up,
	}
	if !c.fsync {
		arguments = append(arguments, "--unsafe-no-fsync")
	}
	return c.component("etcd", c.healthy("https", "etcd", "/health"), arguments...)
}

// apiServer leaves admission and its limits as Kubernetes has them, so that what passes here passes elsewhere.
func (c *controlPlane) apiServer(ready func(context.Context) error) supervisor.Component {
	return c.component("kube-apiserver", ready,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // loopback may not be an endpoint, and no pod here could use it
		"--secure-port="+strconv.Itoa(c.ports["kube-apiserver"]),
		"--etcd-servers=https://"+c.address("etcd"),
		"--etcd-cafile="+c.identity.file("ca.crt"),
		"--etcd-certfile="+c.identity.file("server.crt"),
		"--etcd-keyfile="+c.identity.file("server.key"),
		"--tls-cert-file="+c.identity.file("server.crt"),
		"--tls-private-key-file="+c.identity.file("server.key"),
		"--token-auth-file="+c.identity.file("tokens.csv"),
		"--anonymous-auth=false",
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.identity.file("accounts.pub"),
		"--service-account-signing-key-file="+c.identity.file("accounts.key"),
		"--service-cluster-ip-range=10.96.0.0/12",
		"--kubelet-preferred-address-types=InternalIP",
		"--allow-privileged=true",
		"--profiling=false",
	)
}

// The controllers' clients may ask as often as the API server answers: fairness is the API server's own matter, and
// thousands of clusters must not wait for a client's limit.
const (
	clientRate  = "1000"
	clientBurst = "2000"
)

func (c *controlPlane) controllerManager() supervisor.Component {
	return c.component("kube-controller-manager", c.healthy("https", "kube-controller-manager", "/healthz"),
		"--kubeconfig="+filepath.Join(c.dir, manager.file),
		"--authentication-skip-lookup=true",
		"--bind-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(c.ports["kube-controller-manager"]),
		"--tls-cert-file="+c.identity.file("server.crt"),
		"--tls-private-key-file="+c.identity.file("server.key"),
		"--service-account-private-key-file="+c.identity.file("accounts.key"),
		"--root-ca-file="+c.identity.file("ca.crt"),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--kube-api-qps="+clientRate,
		"--kube-api-burst="+clientBurst,
		"--concurrent-gc-syncs=40",
		"--profiling=false",
	)
}

func (c *controlPlane) scheduler() supervisor.Component {
	return c.component("kube-scheduler", c.healthy("https", "kube-scheduler", "/healthz"),
		"--config="+c.schedulerConfig(),
		"--authentication-skip-lookup=true",
		"--bind-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(c.ports["kube-scheduler"]),
		"--tls-cert-file="+c.identity.file("server.crt"),
		"--tls-private-key-file="+c.identity.file("server.key"),
	)
}

func (c *controlPlane) schedulerConfig() string { return filepath.Join(c.dir, "kube-scheduler.yaml") }

func (c *controlPlane) kuberayOperator() supervisor.Component {
	return c.component("kuberay-operator", c.healthy("http", "kuberay-operator", "/readyz"),
		"--kubeconfig="+filepath.Join(c.dir, operator.file),
		"--health-probe-bind-address="+c.address("kuberay-operator"),
		"--metrics-addr=0",
		"--enable-leader-election=false",
		"--reconcile-concurrency=10",
		"--qps="+clientRate,
		"--burst="+clientBurst,
	)
}

// kwokCRDs are the kinds of KWOK's that people and the simulator may create.
var kwokCRDs = []string{"Stage", "Exec", "ClusterExec", "Logs", "ClusterLogs", "PortForward", "ClusterPortForward"}

func (c *controlPlane) kwok() supervisor.Component {
	return c.component("kwok", c.healthy("https", "kwok", "/healthz"),
		"--kubeconfig="+filepath.Join(c.dir, kwok.file),
		"--config="+c.kwokConfig(),
		"--manage-nodes-with-label-selector=type=kwok",
		"--node-ip=127.0.0.1",
		"--node-port="+strconv.Itoa(c.ports["kwok"]),
		"--server-address="+c.address("kwok"),
		"--tls-cert-file="+c.identity.file("server.crt"),
		"--tls-private-key-file="+c.identity.file("server.key"),
		"--cidr=10.64.0.0/14", // a quarter of a million pods
		"--node-lease-duration-seconds=40",
		"--enable-crds="+strings.Join(kwokCRDs, ","),
	)
}

func (c *controlPlane) kwokConfig() string { return filepath.Join(c.dir, "kwok.yaml") }

// kwokConfiguration lets KWOK play many pods at once; its own default is 4. It names every option that must not be zero,
// as KWOK gives a file no defaults. Naming a file also keeps a person's own configuration in their home out of here.
const kwokConfiguration = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 32
  nodePlayStageParallelism: 8
  nodeLeaseParallelism: 8
  podsOnNodeSyncParallelism: 8
  enablePodsOnNodeSyncListPager: true
  enableDebuggingHandlers: true # port-forward to heads
`

// writeConfigs writes the configuration files of the programs that take one.
func (c *controlPlane) writeConfigs() error {
	scheduler := strings.Replace(schedulerConfiguration, `kubeconfig: ""`,
		"kubeconfig: "+strconv.Quote(filepath.Join(c.dir, scheduler.file)), 1)
	return errors.Join(
		writeFile(c.schedulerConfig(), []byte(scheduler)),
		writeFile(c.kwokConfig(), []byte(kwokConfiguration)),
	)
}
