/* forward - the host's own firewall. Docker, ufw and others set the policy of iptables' FORWARD chain to
 * DROP, which no rule of another table can undo: where it is so, two rules with the comment "berth" let the
 * pods' packets through. Where it is not, or there is no iptables, nothing is done. */
#pragma once

void forward_allow(const char *bridge);
void forward_forget(const char *bridge);
