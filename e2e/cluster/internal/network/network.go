package network

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statefulspark/e2e/cluster/internal/layout"
)

const (
	bridgeName   = "cluster"
	nodeLinkName = "eth0"
)

// SetUpControl makes the bridge in the control plane's namespace and gives it the control plane's address.
func SetUpControl(controlPID int) error {
	return inside(controlPID, func() error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
		if err := netlink.LinkAdd(bridge); err != nil {
			return fmt.Errorf("cannot make a network bridge (is the kernel module `bridge` there?): %w", err)
		}
		return errors.Join(
			raise("lo"),
			address(bridgeName, layout.ControlAddress),
			setSysctl("net/ipv4/ip_forward", "1"),
		)
	})
}

// AttachNode lays the cable between bridge and node, and the routes to the node's pods. It may be called again for a
// node that was lost: the old cable goes first.
func AttachNode(controlPID, nodePID, number, nodes int) error {
	if err := inside(controlPID, func() error { return layCable(nodePID, number) }); err != nil {
		return err
	}
	return inside(nodePID, func() error { return configureNode(number, nodes) })
}

// CutNode pulls the node's cable: a network partition. The node and its containers run on.
func CutNode(controlPID, number int) error {
	return inside(controlPID, func() error { return change(layout.NodeLink(number), netlink.LinkSetDown) })
}

// HealNode plugs the cable in again.
func HealNode(controlPID, number int) error {
	return inside(controlPID, func() error {
		if err := raise(layout.NodeLink(number)); err != nil {
			return err
		}
		return podRoute(number) // the kernel drops routes through a link that goes down
	})
}

// DetachNode removes the cable of a node that is gone.
func DetachNode(controlPID, number int) error {
	return inside(controlPID, func() error { return removeLink(layout.NodeLink(number)) })
}

func layCable(nodePID, number int) error {
	name := layout.NodeLink(number)
	if err := removeLink(name); err != nil {
		return err
	}
	namespace, err := openNamespace(nodePID)
	if err != nil {
		return err
	}
	defer namespace.Close()
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("the control plane has no bridge: %w", err)
	}
	cable := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name, MasterIndex: bridge.Attrs().Index},
		PeerName:  nodeLinkName, PeerNamespace: netlink.NsFd(namespace.Fd()),
	}
	if err := netlink.LinkAdd(cable); err != nil {
		return fmt.Errorf("cannot make a veth pair for node %d: %w", number, err)
	}
	return errors.Join(raise(name), podRoute(number))
}

func configureNode(number, nodes int) error {
	if err := errors.Join(raise("lo"), address(nodeLinkName, layout.NodeAddress(number))); err != nil {
		return err
	}
	if err := route("0.0.0.0/0", layout.ControlAddress); err != nil {
		return err
	}
	for other := 1; other <= nodes; other++ {
		if other == number {
			continue
		}
		if err := route(layout.PodSubnet(other), layout.NodeAddress(other)); err != nil {
			return err
		}
	}
	return errors.Join(
		setSysctl("net/ipv4/ip_forward", "1"), setSysctl("net/ipv4/conf/all/rp_filter", "0"),
		setSysctl("net/bridge/bridge-nf-call-iptables", "1"), // pods of one node are filtered, too
	)
}

func podRoute(number int) error { return route(layout.PodSubnet(number), layout.NodeAddress(number)) }

func route(destination, via string) error {
	_, network, err := net.ParseCIDR(destination)
	if err != nil {
		return err
	}
	if err := netlink.RouteReplace(&netlink.Route{Dst: network, Gw: net.ParseIP(via)}); err != nil {
		return fmt.Errorf("cannot route %s via %s: %w", destination, via, err)
	}
	return nil
}

func address(link, ip string) error {
	return change(link, func(found netlink.Link) error {
		network := &net.IPNet{IP: net.ParseIP(ip), Mask: net.CIDRMask(layout.ControlPrefix, 32)}
		if err := netlink.AddrReplace(found, &netlink.Addr{IPNet: network}); err != nil {
			return err
		}
		return netlink.LinkSetUp(found)
	})
}

func raise(link string) error { return change(link, netlink.LinkSetUp) }

func change(link string, action func(netlink.Link) error) error {
	found, err := netlink.LinkByName(link)
	if err == nil {
		err = action(found)
	}
	if err != nil {
		return fmt.Errorf("cannot configure the link %s: %w", link, err)
	}
	return nil
}

func removeLink(name string) error {
	found, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	// ENODEV: the kernel removed the pair meanwhile, because the other end's namespace ended.
	if err := netlink.LinkDel(found); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("cannot remove the link %s: %w", name, err)
	}
	return nil
}
