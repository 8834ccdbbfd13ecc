package rayslice

// Identity is what an identity provider says about somebody. Who they are is (Issuer, Subject) and nothing else: names
// and addresses change hands.
type Identity struct {
	Issuer  string
	Subject string
	Name    string
	Email   string      // "" when the provider does not vouch for it
	Admin   bool        // the operator's own configuration makes them an admin, whatever their groups
	Roles   []RoleGrant // Team and Role, by their groups; nil = the provider said nothing about groups, empty = they are in none
}
