package k8s

// Codes of reasons about nodes, pools and namespaces; those about one cluster are rayslice's. The sentences stand in the
// catalogues as reason_<code>. Detail, where named, is untrusted text: at most 500 characters, one line, to be shown escaped.
const (
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

	// Why nothing new is known about a cluster's use. Args are named here.
	ReasonUseNoHead           = "use_no_head"           // no head pod that could be asked
	ReasonUseHeadSilent       = "use_head_silent"       // the head did not answer in time
	ReasonUseHeadRefused      = "use_head_refused"      // the head did not answer the question; Args: status
	ReasonUseAnswerTooLarge   = "use_answer_too_large"  // more than a cluster of this size has to say; Args: kib
	ReasonUseAnswerUnreadable = "use_answer_unreadable" // no JSON, or not of the form that Ray has
	ReasonUseSourceSilent     = "use_source_silent"     // Prometheus did not answer in time
	ReasonUseSourceRefused    = "use_source_refused"    // Prometheus refuses the question; Detail
	ReasonUseNoSeries         = "use_no_series"         // Prometheus has no series of the cluster's pods
)
