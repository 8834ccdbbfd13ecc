package k8s

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// forwarder reaches pods through the API server, as kubectl port-forward does, but without a listener on this machine.
type forwarder struct{ config *rest.Config }

// dial opens one connection to the pod's dashboard port.
func (f *forwarder) dial(ctx context.Context, to HeadAddress) (net.Conn, error) {
	dialer, err := f.dialer(to)
	if err != nil {
		return nil, err
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() { // client-go's dialers know no context
		conn, err := openTunnel(dialer)
		done <- result{conn, err}
	}()
	select {
	case r := <-done:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.conn != nil {
				_ = r.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// dialer tries WebSocket first and falls back to SPDY for older servers and for proxies that know no WebSocket.
func (f *forwarder) dialer(to HeadAddress) (httpstream.Dialer, error) {
	config := rest.CopyConfig(f.config)
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	url := client.Post().Namespace(to.Namespace).Resource("pods").Name(to.Pod).SubResource("portforward").URL()
	websocket, err := portforward.NewSPDYOverWebsocketDialer(url, config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	fallback := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	return portforward.NewFallbackDialer(websocket, fallback, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

func openTunnel(dialer httpstream.Dialer) (net.Conn, error) {
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, fmt.Errorf("port-forward: %w", err)
	}
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(dashboardPort))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := connection.CreateStream(headers)
	if err == nil {
		_ = failures.Close() // nothing is written to it
		headers.Set(corev1.StreamType, corev1.StreamTypeData)
		var data httpstream.Stream
		if data, err = connection.CreateStream(headers); err == nil {
			return newTunnel(connection, data, failures), nil
		}
	}
	_ = connection.Close()
	return nil, fmt.Errorf("port-forward: %w", err)
}

// tunnel is a port-forwarded connection.
type tunnel struct {
	httpstream.Stream
	connection httpstream.Connection
}

func newTunnel(connection httpstream.Connection, data, failures httpstream.Stream) net.Conn {
	t := &tunnel{Stream: data, connection: connection}
	go func() { // the kubelet reports there that nobody listens on the port
		if message, _ := io.ReadAll(io.LimitReader(failures, 1024)); len(message) > 0 {
			_ = t.Close()
		}
	}()
	return t
}

// Close ends the connection with everything in it.
func (t *tunnel) Close() error {
	_ = t.Reset()
	return t.connection.Close()
}

// The deadlines of a tunnel are its user's context: http.Client closes it.

// LocalAddr names no real address.
func (t *tunnel) LocalAddr() net.Addr { return tunnelAddr{} }

// RemoteAddr names no real address.
func (t *tunnel) RemoteAddr() net.Addr { return tunnelAddr{} }

// SetDeadline does nothing.
func (t *tunnel) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (t *tunnel) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (t *tunnel) SetWriteDeadline(time.Time) error { return nil }

type tunnelAddr struct{}

// Network returns the name of the kind of address.
func (tunnelAddr) Network() string { return "portforward" }

// String returns the same for every tunnel.
func (tunnelAddr) String() string { return "portforward" }
