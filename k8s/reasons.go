package k8s

// Codes of reasons that come from Kubernetes; the sentences stand in the catalogues as reason_<code>. Detail, where
// named, is untrusted text: at most 500 characters, one line, to be shown escaped.
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
	ReasonOperatorSilent   = "operator_silent"   // KubeRay has not touched the RayCluster; Args: minutes
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

	// What is wrong with a node. Args: node, and what is named here.
	ReasonNodeNotReady    = "node_not_ready"
	ReasonNodeCordoned    = "node_cordoned"
	ReasonNodeOffersNone  = "node_offers_nothing" // labelled for sharing, but the resource is missing: device plugin not running, or unit MiB
	ReasonNodeZero        = "node_zero"           // offers 0 GiB; Args: cards
	ReasonNodeNoCount     = "node_no_count"       // offers memory but not how many cards it is on
	ReasonNodeUnit        = "node_unit"           // counts in MiB, the catalogue in GiB; Args: offered (per card), card_mib (0 = unknown)
	ReasonNodeUnlikeCards = "node_unlike_cards"   // Args: cards_gib (all cards together), offered_gib
	ReasonNodeMode        = "node_mode"           // shared otherwise than its pool says; Args: mode, pool_mode
	ReasonNodeNoWall      = "node_no_wall"        // labelled cgpu.disable.isolation=true: nothing is enforced there
	ReasonNodeNoCompute   = "node_no_compute"     // core_mem node without aliyun.com/gpu-core.percentage
	ReasonNodeSmallCard   = "node_small_card"     // its cards offer less than the pool says; Args: card_gib, pool_gib
	ReasonNodeManyCards   = "node_many_cards"     // offers more cards than a machine has; Args: cards
	ReasonNodeMaxPods     = "node_max_pods"       // its label ack.node.gpu.max-pod lets nothing on it; Args: value
	ReasonNodeOverfull    = "node_overfull"       // more of a card is given out than it offers; Args: card, given_gib, card_gib
	ReasonNodeStrangeCard = "node_strange_card"   // a pod is recorded on a card that it does not have; Args: card

	// Why a pool is closed. Args: node, and what is named here.
	ReasonPoolUnit        = "pool_unit"         // its nodes count in MiB or in different units; Args: offered
	ReasonPoolNotIsolated = "pool_not_isolated" // a node of an isolated pool enforces nothing

	// Why other teams can reach a cluster. Args: namespaces, in the report about all of them, and what is named here.
	ReasonUnguardedRights  = "unguarded_rights"  // the portal may not write NetworkPolicies
	ReasonUnguardedTaken   = "unguarded_taken"   // somebody else's NetworkPolicy has the name; Args: policy
	ReasonUnguardedRefused = "unguarded_refused" // a rule of the namespace, or the API server failed; Detail

	// Why the portal's ResourceQuota does not stand in a team's namespace. Args: namespaces.
	ReasonQuotaRights  = "quota_rights"  // the portal may not write ResourceQuotas; no namespaces when it may not see them either
	ReasonQuotaTaken   = "quota_taken"   // somebody else's ResourceQuota has the name
	ReasonQuotaRefused = "quota_refused" // a rule of the namespace, or the API server failed

	// What is wrong with the cluster as a whole.
	ReasonNoShareScheduler = "no_share_scheduler" // slice pods run without a card: no share scheduler placed them; Args: pods
)
