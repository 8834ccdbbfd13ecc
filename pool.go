package rayslice

import "slices"

// Mode is how the cards of a pool are shared. The values of the sliced modes are those of ACK's node label
// ack.node.gpu.schedule (domain facts A.1).
type Mode string

// The sharing modes.
const (
	ModeCGPU    Mode = "cgpu"     // memory enforced, compute shared
	ModeCoreMem Mode = "core_mem" // memory and compute enforced; every worker asks for both
	ModeShare   Mode = "share"    // same resource, nothing enforced: a pod sees the whole card
	ModeWhole   Mode = "whole"    // whole cards through nvidia.com/gpu
)

// Sliced reports whether cards of this mode are handed out in GiB.
func (m Mode) Sliced() bool { return m != ModeWhole }

// Isolated reports whether the memory limit of a slice is enforced in this mode.
func (m Mode) Isolated() bool { return m != ModeShare }

// A Pool is the set of nodes that share a card model and a sharing mode: where slices come from.
type Pool struct {
	Name            string            `json:"name"`             // "a10"; DNS label, goes into group names
	Model           string            `json:"model"`            // "NVIDIA A10", for people
	Mode            Mode              `json:"mode"`             // how its cards are shared
	CardGiB         int               `json:"card_gib"`         // GiB one card offers as aliyun.com/gpu-mem; whole cards: memory, for people
	CardMiB         int               `json:"card_mib"`         // physical MiB of one card; 0 = unknown
	Sizes           []int             `json:"sizes"`            // GiB offered for slices, ascending; empty for whole cards
	NodeSelector    map[string]string `json:"node_selector"`    // labels that pick the pool's nodes
	MaxCards        int               `json:"max_cards"`        // most cards one worker may have; 1 where slices do not add up across cards
	AllowUnisolated bool              `json:"allow_unisolated"` // an admin has allowed a share pool to be offered
}

// Offered reports whether people may ask for this pool: pools that enforce nothing need an admin's word.
func (p Pool) Offered() bool { return p.Mode.Isolated() || p.AllowUnisolated }

// Offers reports whether the catalogue has a slice of gib GiB on this pool.
func (p Pool) Offers(gib int) bool { return slices.Contains(p.Sizes, gib) }

// Image is one container image people may choose.
type Image struct {
	Name       string `json:"name"`        // "ray 2.52 · py311", for people
	Ref        string `json:"ref"`         // image reference
	RayVersion string `json:"ray_version"` // "2.52.0"
	Python     string `json:"python"`      // "3.11"
}

// Limits bound every request. They come from configuration.
type Limits struct {
	MaxWorkers       int `json:"max_workers"`         // workers of one request, all groups together; a head above 400 dies (ray-project/ray#48723)
	MaxGroups        int `json:"max_groups"`          // worker groups of one request
	MaxHours         int `json:"max_hours"`           // longest lifetime, hours
	MinHeadMemoryGiB int `json:"min_head_memory_gib"` // heads below 4 GiB are killed for memory (ray-project/kuberay#528)
	MaxMemoryGiB     int `json:"max_memory_gib"`      // memory of one pod, GiB
	MaxCPU           int `json:"max_cpu"`             // CPUs of one pod
}

// DefaultLimits returns the limits that hold when configuration says nothing.
func DefaultLimits() Limits {
	return Limits{MaxWorkers: 400, MaxGroups: 5, MaxHours: 168, MinHeadMemoryGiB: 4, MaxMemoryGiB: 1024, MaxCPU: 128}
}

// Catalogue is what may be asked for: pools, images and limits.
type Catalogue struct {
	Pools         []Pool   `json:"pools"`
	Images        []Image  `json:"images"`         // the first is the default
	ImagePrefixes []string `json:"image_prefixes"` // other images are allowed when they start with one of these
	Limits        Limits   `json:"limits"`
}

// Pool returns the pool with the given name.
func (c Catalogue) Pool(name string) (Pool, bool) {
	i := slices.IndexFunc(c.Pools, func(p Pool) bool { return p.Name == name })
	if i < 0 {
		return Pool{}, false
	}
	return c.Pools[i], true
}

// Image returns the catalogue's image with the given reference.
func (c Catalogue) Image(ref string) (Image, bool) {
	i := slices.IndexFunc(c.Images, func(m Image) bool { return m.Ref == ref })
	if i < 0 {
		return Image{}, false
	}
	return c.Images[i], true
}
