// Package web turns values into pages: templ components, the structs they take, and the sentences in every language.
// Components take values and return markup; they read no database, no session and no clock.
package web

import (
	"time"

	"github.com/rayslice/rayslice"
)

// EventLive is the name of the server-sent event whose data is a fresh RequestLive, ClusterRows or FleetLive.
const EventLive = "live"

// EventAuthExpired is the name of the server-sent event that tells a page its session has ended; app.js then loads
// the page again, which leads to sign-in.
const EventAuthExpired = "auth-expired"

// StaleAfter is the age from which pages warn that what Kubernetes reported is old: two reports did not come.
const StaleAfter = 75 * time.Second

// Frame is what every page has around its content. Forms carry no token: the server refuses cross-origin posts.
type Frame struct {
	Locale      *Localizer        // language of the page; never nil
	User        rayslice.User     // who is signed in; ID 0 = nobody
	Path        string            // path and query of this page, where the language switch returns to
	Now         time.Time         // the time all ages and remaining times are counted from
	Demo        bool              // the portal runs its demo
	Version     string            // of the portal
	RequestID   string            // id of this HTTP request, shown on error pages
	DataAge     time.Duration     // age of what Kubernetes reported; a banner appears from StaleAfter on
	DataUnknown bool              // nothing was read from Kubernetes yet
	Unread      int               // notices that the user has not read, up to 100
	Raises      int               // raises that wait for an admin; 0 for everybody else
	Done        string            // ?done=: what was just done, one of DoneCodes; anything else says nothing
	Problems    []rayslice.Reason // of the Kubernetes cluster as a whole, e.g. no operator
	Waiting     int               // requests this user may decide; counted up to 100
}

// SignInPage asks who somebody is. In the demo it offers the personas.
// Form: POST /signin with user (id of the persona) and next. Link: /signin/oidc?next=.
type SignInPage struct {
	Frame
	Personas []rayslice.User
	Provider string // host of the identity provider; "" = none is configured
	Next     string // local path to go to afterwards
}

// ClusterRow is one request with what Kubernetes reports about it.
type ClusterRow struct {
	Request rayslice.Request
	Cluster rayslice.Cluster // zero ObservedAt = nothing was observed yet
	Badge   rayslice.Badge   // whether its slices are enforced
	Use     rayslice.Use     // zero AskedAt = nothing was asked yet
}

// ListFilter narrows a list of clusters. Its fields are the query parameters of GET /clusters.
type ListFilter struct {
	State  string // ?state= one of rayslice.States(), or "live"; "" = all
	Team   string // ?team=
	Search string // ?q= part of a name
	Mine   bool   // ?mine=1 only the user's own
}

// ClusterList shows the clusters a person may see.
type ClusterList struct {
	Frame
	Pages
	Filter ListFilter
	Teams  []string // to choose from in the filter
	Rows   []ClusterRow
	Quotas []rayslice.Quota // of the user's teams
	Stream string           // address of the event stream; "" = the list does not refresh itself
}

// NewRequestPage is the form that asks for a cluster, or changes what a waiting request asks for.
// Forms: POST /clusters sends it, POST /clusters/preview answers with RequestPreview (htmx) or this page (no JavaScript);
// a change goes to /clusters/ID/edit and /clusters/ID/preview.
type NewRequestPage struct {
	Frame
	Form           RequestForm
	Problem        *rayslice.Error // why the form came back; nil = it did not
	Catalogue      rayslice.Catalogue
	Fleet          rayslice.Fleet     // closed pools and their reasons; zero = unknown
	Quotas         []rayslice.Quota   // one per team the user may ask in, in the order of the team select; a request that is changed left out
	Grants         []rayslice.Grant   // what the limit of the form's team is made of
	Decision       rayslice.Reason    // what would follow, as rayslice.Rules.Decide says; zero when it cannot be told
	Deciders       []string           // names of those who would be asked
	Edit           *RequestEdit       // the request that is changed; nil = it is a new one
	Fits           map[string]RoomFit // when each size fits, for as many workers as the form says; by the value of its radio button
	Room           *RoomFit           // when all of the form fits; nil = it cannot be told, or asks for no GPU
	Charge         rayslice.Charge    // what the form as it stands would cost; zero when it cannot be told
	YAML           string             // what would be applied; "" = not asked for, or the form is wrong
	EnvLost        bool               // the form came back after signing in, without the environment that was typed
	IdempotencyKey string             // sent as idempotency_key, so that sending twice asks once
}

// RequestPage shows one request and its cluster.
type RequestPage struct {
	Frame
	Request      rayslice.Request
	Cluster      rayslice.Cluster // zero ObservedAt = nothing was observed yet
	Catalogue    rayslice.Catalogue
	Audit        []rayslice.AuditEntry // latest first
	YAML         string                // "" = not to be shown
	CanStop      bool                  // this user may stop it, and it is stoppable
	ConfirmStop  bool                  // ?confirm=stop: ask before stopping, without JavaScript
	CanChange    bool                  // this user asked for it, and it waits
	Deciders     []string              // names of those who may decide, while it waits
	Decision     *ApprovalRow          // what this user needs to decide it; nil = they are nobody to decide
	Verification VerificationView
	Reply        ReplyForm    // answer to a lead who asked back
	Stream       string       // address of the event stream; "" = the page does not refresh itself
	Way          Way          // to the dashboard and the jobs
	Use          rayslice.Use // zero AskedAt = nothing was asked yet
	History      UseHistory
}

// Way is how to reach a cluster through the portal.
type Way struct {
	Host   string          // origin of the cluster's host; "" = clusters have none
	Portal string          // address of the portal
	Access rayslice.Access // what the visitor may do there
}

// ErrorPage says what went wrong and what to do.
type ErrorPage struct {
	Frame
	Status  int             // HTTP status: 403, 404, 422, 500, 503, …
	Problem *rayslice.Error // nil = only the status is known
	Back    string          // page of the form that was refused; "" = none
}

// ClusterErrorPage is an ErrorPage on the host of a cluster, where the portal has neither styles nor other pages.
type ClusterErrorPage struct {
	ErrorPage
	Portal string // address of the cluster's page in the portal
}
