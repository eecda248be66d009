package layout

import (
	"net/netip"
	"strings"
	"testing"
)

func TestTheSameDirectoryAlwaysGetsTheSameID(t *testing.T) {
	first, err := New("some/Build.dir", "")
	if err != nil {
		t.Fatal(err)
	}
	second, _ := New("./some/../some/Build.dir", "")
	if first != second {
		t.Fatalf("want one identity, got %v and %v", first, second)
	}
	if !strings.HasPrefix(first.ID, "build-dir-") {
		t.Fatalf("the id %q does not start with the directory's name", first.ID)
	}
}

func TestDifferentDirectoriesGetDifferentControlGroups(t *testing.T) {
	one, _ := New("/a/cluster", "")
	two, _ := New("/b/cluster", "")
	if one.NodeCgroup(1) == two.NodeCgroup(1) {
		t.Fatalf("both use %s", one.NodeCgroup(1))
	}
}

func TestAnIDThatIsNoNameIsRefused(t *testing.T) {
	for _, id := range []string{"a/b", "..", "Upper", "-a", "a--b"} {
		if _, err := New("dir", id); err == nil {
			t.Errorf("the id %q was accepted", id)
		}
	}
}

func TestNodeAddressesLieInTheBridgeSubnetAndPodSubnetsInThePodRange(t *testing.T) {
	bridge := netip.PrefixFrom(netip.MustParseAddr(ControlAddress), ControlPrefix).Masked()
	pods := netip.MustParsePrefix(PodRange)
	for number := 1; number <= MaxNodes; number++ {
		if !bridge.Contains(netip.MustParseAddr(NodeAddress(number))) {
			t.Errorf("%s is outside %s", NodeAddress(number), bridge)
		}
		if !pods.Contains(netip.MustParsePrefix(PodSubnet(number)).Addr()) {
			t.Errorf("%s is outside %s", PodSubnet(number), pods)
		}
	}
}
