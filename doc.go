// Package rayslice holds what the words of this product mean and what is allowed: slices, pools, requests,
// quota and the states a request goes through. It knows neither HTTP, SQL nor Kubernetes and imports only the
// standard library.
package rayslice
