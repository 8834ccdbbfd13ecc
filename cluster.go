package rayslice

import "time"

// A Cluster is what Kubernetes reports about one request: the RayCluster, its pods and their slices. Its JSON, of which every list
// reads many, says nothing of what is not so.
type Cluster struct {
	RequestID  string    `json:"request_id"`
	ObservedAt time.Time `json:"observed_at,omitzero"` // when this was read from the caches

	Exists     bool      `json:"exists,omitzero"`      // an object with the request's name exists
	Ours       bool      `json:"ours,omitzero"`        // and it carries the request's label
	UID        string    `json:"uid,omitzero"`         // of the RayCluster
	Deleting   bool      `json:"deleting,omitzero"`    // deletion has begun
	CreatedAt  time.Time `json:"created_at,omitzero"`  // of the RayCluster
	Confirmed  bool      `json:"-"`                    // a live read, not only the cache, has just seen what Exists says
	RayVersion string    `json:"ray_version,omitzero"` // what the head's /api/version answered; "" = not answered yet

	Head        *Worker  `json:"head,omitzero"`         // nil = no head pod
	Workers     []Worker `json:"workers,omitzero"`      // worker pods, sorted by group and name
	HeadAnswers bool     `json:"head_answers,omitzero"` // the head answered /api/version through our path
	Service     string   `json:"service,omitzero"`      // DNS name of the head service, e.g. "rs-…-head-svc.team-vision.svc"

	Verification VerificationState  `json:"verification,omitzero"` // how far the gate before ready is
	Touched      bool               `json:"touched,omitzero"`      // KubeRay has looked at the object
	OperatorAt   time.Time          `json:"operator_at,omitzero"`  // when KubeRay last made a pod for any cluster; filled in while pods are missing, zero = not known
	Conditions   []KubeRayCondition `json:"conditions,omitzero"`   // what KubeRay says of the object

	Problem   Reason  `json:"problem,omitzero"`   // the most telling thing that is wrong; zero = nothing
	Unguarded Reason  `json:"unguarded,omitzero"` // why its network policies do not stand, so that other teams may reach it; zero = they do
	Drift     []Drift `json:"drift,omitzero"`     // where the object differs from what was approved
	Events    []Event `json:"events,omitzero"`    // latest first, at most 20
}

// A Worker is one pod of a cluster.
type Worker struct {
	Name       string      `json:"name,omitzero"`
	UID        string      `json:"uid,omitzero"`
	Group      string      `json:"group,omitzero"`
	Phase      PodPhase    `json:"phase,omitzero"`
	Ready      bool        `json:"ready,omitzero"`
	Deleting   bool        `json:"deleting,omitzero"`
	Node       string      `json:"node,omitzero"`       // "" = not placed
	IP         string      `json:"ip,omitzero"`         // "" = none yet
	Slice      Slice       `json:"slice,omitzero"`      // what the running pod asks for, which may differ from what is approved
	Placements []Placement `json:"placements,omitzero"` // physical cards; empty = unknown
	Problem    Reason      `json:"problem,omitzero"`    // why it does not run; zero = nothing
	Restarts   int         `json:"restarts,omitzero"`
	CreatedAt  time.Time   `json:"created_at,omitzero"`
}

// A Placement is the part of a slice that lies on one card.
type Placement struct {
	Card int `json:"card"` // index of the card on its node
	GiB  int `json:"gib"`  // GiB of the slice on that card
}

// PodPhase is Kubernetes' word for where a pod is in its life.
type PodPhase string

// The phases of a pod.
const (
	PodPending   PodPhase = "Pending"
	PodRunning   PodPhase = "Running"
	PodSucceeded PodPhase = "Succeeded"
	PodFailed    PodPhase = "Failed"
	PodUnknown   PodPhase = "Unknown"
)

// Drift is one difference between what was approved and what stands in Kubernetes.
type Drift struct {
	Field    string `json:"field"` // path in the RayCluster, e.g. "spec.workerGroupSpecs[0].maxReplicas"
	Approved string `json:"approved"`
	Observed string `json:"observed"`
	Manager  string `json:"manager"` // field manager that wrote it; "" = unknown
}

// A KubeRayCondition is one of the conditions that KubeRay keeps in a RayCluster's status. Message is untrusted text.
type KubeRayCondition struct {
	Type    string    `json:"type"` // "HeadPodReady", "RayClusterProvisioned", "ReplicaFailure", …
	True    bool      `json:"true"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	At      time.Time `json:"at"` // since when it is so
}

// An Event is one Kubernetes event about the cluster or its pods. Message is untrusted text.
type Event struct {
	At      time.Time `json:"at"`    // when it last happened
	First   time.Time `json:"first"` // when it first did; zero = not known
	Warning bool      `json:"warning"`
	Object  string    `json:"object"` // "Pod/rs-…-worker-x"
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Count   int       `json:"count"`
}

// ReadyWorkers counts worker pods that run and are ready and not on their way out.
func (c Cluster) ReadyWorkers() int {
	n := 0
	for _, w := range c.Workers {
		if w.Ready && !w.Deleting {
			n++
		}
	}
	return n
}

// Pods returns how many pods are left, the head included, whatever their phase.
func (c Cluster) Pods() int {
	n := len(c.Workers)
	if c.Head != nil {
		n++
	}
	return n
}

// A Fleet is the cluster side's report about nodes and pools.
type Fleet struct {
	ObservedAt time.Time    `json:"observed_at"`
	Nodes      []Node       `json:"nodes"`       // every node a pool's selector picks, and every node that offers a GPU
	Pools      []PoolStatus `json:"pools"`       // one per configured pool, in the catalogue's order
	Orphans    []Orphan     `json:"orphans"`     // objects with our label and no request; never deleted by themselves
	Holds      []Hold       `json:"holds"`       // what live pods have of the cards, by node; nil when Fleet was read without
	Strays     int          `json:"strays"`      // pods that are not the portal's and wait for a card somewhere
	PodsUnread bool         `json:"pods_unread"` // pods could not be read yet, so nothing is known about what is free
	Unmanaged  []Unmanaged  `json:"unmanaged"`   // what holds GPUs in teams' namespaces without the portal, largest first, at most MaxUnmanaged
	Problems   []Reason     `json:"problems"`    // of the cluster as a whole: operator or share scheduler missing, CRD version
	Guards     []Reason     `json:"guards"`      // why policies or quotas of teams' namespaces do not stand; for admins, as it names the teams
}

// A Node is one machine with cards.
type Node struct {
	Name     string   `json:"name"`
	Pool     string   `json:"pool"` // "" = no pool picks it
	Mode     Mode     `json:"mode"` // from its label
	Ready    bool     `json:"ready"`
	Cards    int      `json:"cards"`
	CardGiB  int      `json:"card_gib"` // GiB one card offers; 0 = offers nothing
	MaxPods  int      `json:"max_pods"` // most pods on one card; 0 = not limited
	Problems []Reason `json:"problems"` // why it takes no slices
	Doubts   []Reason `json:"doubts"`   // what does not add up; it takes slices all the same
}

// PoolStatus is what the nodes say about one pool.
type PoolStatus struct {
	Pool       string `json:"pool"`
	Nodes      int    `json:"nodes"`       // nodes the selector picks
	Looked     int    `json:"looked"`      // nodes that were looked at
	Cards      int    `json:"cards"`       // cards on ready nodes
	LargestGiB int    `json:"largest_gib"` // largest card offered, GiB; 0 = none seen
	Blocked    Reason `json:"blocked"`     // why nobody may ask for it now, e.g. mixed units; zero = open
}

// An Orphan is a RayCluster with our label whose request is unknown.
type Orphan struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	RequestID string    `json:"request_id"`
	CreatedAt time.Time `json:"created_at"`
}

// MaxUnmanaged is how many entries of a Fleet's Unmanaged are kept.
const MaxUnmanaged = 50

// Unmanaged is what somebody runs on GPUs in a team's namespace without the portal, e.g. with kubectl. It is shown and never
// touched.
type Unmanaged struct {
	Team      string    `json:"team"`
	Namespace string    `json:"namespace"`
	Object    string    `json:"object"` // what controls the pods, "RayCluster/demo", or the pod itself; an untrusted name
	Pods      int       `json:"pods"`
	Charge    Charge    `json:"charge"` // what they hold
	CreatedAt time.Time `json:"created_at"`
}
