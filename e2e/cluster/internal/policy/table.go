package policy

import "sigs.k8s.io/knftables"

// Table is the name of the table that holds the rules.
const Table = "network-policies"

const forwardChain = "forward"

// Replace fills a transaction that puts a table with these isolations in place of the one before, in one step.
func Replace(tx *knftables.Transaction, isolations []Isolation) {
	tx.Add(&knftables.Table{}) // so that there is one to delete
	tx.Delete(&knftables.Table{})
	tx.Add(&knftables.Table{})
	tx.Add(&knftables.Chain{
		Name: forwardChain, Type: knftables.PtrTo(knftables.FilterType),
		Hook: knftables.PtrTo(knftables.ForwardHook), Priority: knftables.PtrTo(knftables.FilterPriority),
	})
	tx.Add(&knftables.Rule{Chain: forwardChain, Rule: "ct state established,related accept"})
	for _, isolation := range isolations {
		chain := isolation.Chain()
		tx.Add(&knftables.Chain{Name: chain})
		for _, condition := range isolation.Allowed {
			tx.Add(&knftables.Rule{Chain: chain, Rule: join(condition, "return")}) // the other direction has its say
		}
		tx.Add(&knftables.Rule{Chain: chain, Rule: "drop"})
		tx.Add(&knftables.Rule{
			Chain: forwardChain, Rule: knftables.Concat(isolation.Direction.pod(), isolation.Address, "jump", chain),
		})
	}
}
