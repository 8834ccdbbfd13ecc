package rayslice

// Codes of reasons that come from Kubernetes and are about one cluster; the sentences stand in the catalogues as
// reason_<code>. Detail, where named, is untrusted text: at most 500 characters, one line, to be shown escaped.
const (
	// Why Kubernetes does not let the cluster or its pods come into being.
	ReasonNamespaceQuota   = "namespace_quota"   // the namespace's ResourceQuota; Args: quota, resource, requested, used, limited
	ReasonTeamQuotaFull    = "team_quota_full"   // the portal's own ResourceQuota; Args as above: pods that are going, or not of the portal, hold it
	ReasonNamespaceRule    = "namespace_rule"    // another rule of the namespace: limits, pod security, admission policy; Detail
	ReasonNamespaceMissing = "namespace_missing" // the team's namespace does not exist or is being deleted; Args: namespace
	ReasonNotPermitted     = "not_permitted"     // the portal's, or KubeRay's, own rights do not allow it
	ReasonAPIRefused       = "api_refused"       // the API server calls the object invalid; Detail
	ReasonApplyFailed      = "apply_failed"      // the API server failed at it; tried again
	ReasonKubeRayMissing   = "kuberay_missing"   // the RayCluster kind is not installed
	ReasonKubeRayVersion   = "kuberay_version"   // installed, but ray.io/v1 is not served; Args: versions
	ReasonOperatorSilent   = "operator_silent"   // KubeRay has not touched the RayCluster, nor made any other pod lately; Args: minutes
	ReasonOperatorBusy     = "operator_busy"     // KubeRay makes pods of other clusters meanwhile; Args: idle (seconds, of this one), seconds (since the last pod)
	ReasonCreateFailed     = "create_failed"     // KubeRay could not make a pod; Detail
	ReasonWarning          = "warning_event"     // pods are missing and the latest warning may say why; Args: event; Detail
	ReasonDeletingSlow     = "deleting_slow"     // deletion hangs; Args: minutes, finalizers
	ReasonSuspended        = "suspended"         // somebody set spec.suspend: KubeRay has removed the pods
	ReasonPodsRemain       = "pods_remain"       // the RayCluster is gone, its pods are not; Args: pods

	// Why a pod does not run. Args: pod, and what is named here.
	ReasonUnschedulable   = "unschedulable"    // no node takes it; Detail
	ReasonShareUnplaced   = "share_unplaced"   // the share scheduler did not place it: no assume timestamp; Detail
	ReasonCardRace        = "card_race"        // another slice took the card first; create again; Detail
	ReasonImagePull       = "image_pull"       // Args: image; Detail
	ReasonOOMKilled       = "oom_killed"       // main memory, not GPU memory; Args: container, memory
	ReasonCrashLoop       = "crash_loop"       // Args: container, exit_code, restarts; Detail
	ReasonContainerFailed = "container_failed" // could not start; Args: container, what; Detail
	ReasonContainerExited = "container_exited" // ended; Args: container, exit_code; Detail
	ReasonEvicted         = "evicted"          // Detail
	ReasonPodFailed       = "pod_failed"       // Args: what; Detail
	ReasonVolume          = "volume"           // a volume cannot be mounted; Detail
	ReasonNVMLLost        = "nvml_lost"        // the pod has lost its card: "Failed to initialize NVML"; Detail
	ReasonHeadCondition   = "head_condition"   // KubeRay's condition HeadPodReady says why; Args: what; Detail

	ReasonDrifted = "drifted" // somebody changed the object in Kubernetes; Args: field

	// What each of a scheduler's groups of nodes lacks. Args: nodes; Detail.
	ReasonRoomNode     = "room_node"     // GPU memory, all cards of the node together
	ReasonRoomCard     = "room_card"     // GPU memory on one card
	ReasonRoomCore     = "room_core"     // compute on one card
	ReasonRoomPods     = "room_pods"     // a card has as many pods as it may
	ReasonRoomCards    = "room_cards"    // whole cards
	ReasonRoomCPU      = "room_cpu"      // CPU
	ReasonRoomMemory   = "room_memory"   // main memory
	ReasonRoomOther    = "room_other"    // another resource; Args: resource
	ReasonNodesKind    = "nodes_kind"    // share their cards in another way than the pod asks for
	ReasonNodesOther   = "nodes_other"   // other pools' nodes, or without the labels asked for
	ReasonNodesTainted = "nodes_tainted" // keep pods like this away
	ReasonNodesClosed  = "nodes_closed"  // cordoned
	ReasonNodesSpread  = "nodes_spread"  // have a pod already that this one must not be beside
	ReasonNodesVolume  = "nodes_volume"  // cannot reach the pod's volume
	ReasonNodesUnknown = "nodes_unknown" // refuse for a reason that is not known here
	ReasonNoNodes      = "no_nodes"      // there is no node at all
	ReasonGated        = "gated"         // something holds the pod back from the scheduler: a scheduling gate
	ReasonMixedKinds   = "mixed_kinds"   // containers ask for unlike GPU resources

	// ReasonNoShareScheduler is about the cluster as a whole: slice pods run without a card. Args: pods.
	ReasonNoShareScheduler = "no_share_scheduler"
)
