// Package rayhead stands in for the Ray heads of simulated RayClusters: their pods run nothing, so somebody has to answer
// Ray's HTTP API for them.
//
// Every running head pod gets a loopback listener that answers as a head of its Ray version would, from what the API
// server knows about the cluster's pods, and a KWOK PortForward object that leads a port-forward to the pod there. Memory
// and utilisation follow curves that depend only on the pod and the time, so that restarts do not show and tests can
// foretell them. A node's FaultsAnnotation makes the pods on it misbehave. The shapes in testdata were recorded from a
// real head, Ray 2.52.0 with one worker.
//
// Jobs really run, on this machine, in an environment made from the head's pod; their tasks run in those of the workers'
// pods, with a stand-in for NVIDIA's driver that holds what the simulation says.
package rayhead

// FaultsAnnotation on a node lists, separated by commas, how the heads and workers that run on it misbehave; on a pod, how it does.
const FaultsAnnotation = "sandbox.rayslice.io/faults"

// The faults of a worker.
const (
	IsolationOff = "isolation-off" // it sees the whole card's memory
	WrongNumbers = "wrong-numbers" // impossible memory and utilisation
	GPULost      = "gpu-lost"      // no figures about GPUs at all
	Idle         = "idle"          // nothing runs on it

	LimitLost          = "limit-lost"           // the slice's size is shown and nothing holds it
	LimitInEnvironment = "limit-in-environment" // only a variable of the container holds it
	CardFull           = "card-full"            // neighbours hold the rest of its card
	DriverBroken       = "driver-broken"        // CUDA does not start, and nvidia-smi neither
	DriverHangs        = "driver-hangs"         // calls for memory never return
	NoisyDriver        = "noisy-driver"         // nvidia-smi prints more than what it was asked
)

// The faults of a head.
const (
	DeadDashboard     = "dead-dashboard"     // accepts connections and never answers
	HTMLDashboard     = "html-dashboard"     // answers every path with a web page
	RedirectDashboard = "redirect-dashboard" // sends every caller somewhere else
	HugeDashboard     = "huge-dashboard"     // never stops answering

	JobsDown  = "jobs-down"  // takes no jobs
	JobsStuck = "jobs-stuck" // takes jobs and never starts them
	JobsNoisy = "jobs-noisy" // logs of jobs begin with 10 MiB of other lines
	JobsHalf  = "jobs-half"  // logs of jobs lack their second half
)
